// Pictures of the page, small and soft, so that fonts make no difference and layouts do. `BLESS=1` takes them anew.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const WIDTH = 160;
/** Mean difference of a channel, of 255. Another font comes to 2 or 3, a missing bar to more than 8. */
const MOST = 6;

export async function compare(page, name, target = page) {
  const shot = await target.screenshot({ animations: "disabled" });
  const small = await page.evaluate(shrink, { data: shot.toString("base64"), width: WIDTH });
  const folder = fileURLToPath(new URL("pictures/", import.meta.url));
  const file = `${folder}${name}.png`;
  if (process.env.BLESS || !existsSync(file)) {
    assert.ok(process.env.BLESS, `there is no picture ${file}, run with BLESS=1`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, Buffer.from(small.split(",")[1], "base64"));
    return;
  }
  const expected = `data:image/png;base64,${readFileSync(file).toString("base64")}`;
  const difference = await page.evaluate(differ, { left: small, right: expected });
  assert.ok(difference <= MOST, `${name} differs from its picture by ${difference.toFixed(1)} of 255, at most ${MOST} is taken for the same`);
}

/** A picture of a certain width. */
async function shrink({ data, width }) {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = Math.round((image.height * width) / image.width);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

/** How far two pictures are apart, the second stretched to the size of the first. */
async function differ({ left, right }) {
  const pixels = async (source, width, height) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width ?? image.width, height ?? image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return context.getImageData(0, 0, canvas.width, canvas.height);
  };
  const first = await pixels(left);
  const second = await pixels(right, first.width, first.height);
  let sum = 0;
  for (let index = 0; index < first.data.length; index++) sum += Math.abs(first.data[index] - second.data[index]);
  return sum / ((first.data.length * 3) / 4);
}
