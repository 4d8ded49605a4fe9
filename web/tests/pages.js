// The pages that are tested, written by the command itself.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const COMMAND = process.env.MESHWRIGHT ?? fileURLToPath(new URL("../../target/release/meshwright", import.meta.url));
const given = (name) => fileURLToPath(new URL(`pages/${name}`, import.meta.url));
const settings = (values) => Object.entries(values).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
const small = settings({ layers: 4, hidden: 256, heads: 4, seq: 256, vocab: 1024, batch: 32 });

/** A hundred thousand operations and some. */
const large = settings({ layers: 228, hidden: 512, heads: 8, seq: 512, vocab: 4096, batch: 32 });

const COMMANDS = {
  plan: ["plan", "gpt2", ...small, "--cluster", "4xv100-16g", "--memory", "1200MiB"],
  stages: ["simulate", "gpt2", ...small, "--cluster", "8xv100-16g", "--mesh", "data=2,model=2,micro=4@time", "--tactics", given("stages.toml")],
  names: ["simulate", given("names.mlir"), "--cluster", "4xv100-16g", "--mesh", "data=2,model=2", "--tactics", given("cut.toml")],
  profile: ["profile", "gpt2", ...small],
  sweep: ["sweep", "gpt2", ...small, "--cluster", "4xv100-16g", "--mesh", "data=4", "--tactics", given("zero.toml"), "--vary", "batch=16,32,64", "--vary", "memory=1100MiB,2GiB"],
  large: ["simulate", "gpt2", ...large, "--cluster", "8xh100", "--mesh", "data=8", "--tactics", given("zero.toml")],
};

const folder = mkdtempSync(join(tmpdir(), "meshwright-pages-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const made = new Map();

/** A page with what the command prints as JSON, each made once. */
export function page(name) {
  if (!made.has(name)) {
    const file = join(folder, `${name}.html`);
    const run = (more) => execFileSync(COMMAND, [...COMMANDS[name], ...more], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 });
    made.set(name, null);
    const json = JSON.parse(run(["--html", file, "--json"]));
    const text = readFileSync(file, "utf8");
    const data = JSON.parse(text.split('id="document">')[1].split("</script>")[0]);
    made.set(name, { file, json, data, bytes: text.length });
  }
  if (!made.get(name)) throw new Error(`the page ${name} could not be made`);
  return made.get(name);
}
