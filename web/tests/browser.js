// A real Chromium, headless, that reaches nothing but files.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];

/** Where a browser is: `CHROMIUM` names another. */
export function browserPath() {
  return [process.env.CHROMIUM, ...PLACES].find((path) => path && existsSync(path));
}

export async function launch() {
  return chromium.launch({
    executablePath: browserPath(),
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-dev-shm-usage",
    ],
  });
}

/** Opens a page; what it logs as an error and what it asks the network for is kept. */
export async function openPage(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => !request.url().startsWith("file:") && problems.push(`request of ${request.url()}`));
  const begin = performance.now();
  await page.goto(`file://${file}`, { waitUntil: "load" });
  await page.waitForFunction(() => document.documentElement.dataset.ready !== undefined);
  // Everything is drawn one frame later.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const openSeconds = (performance.now() - begin) / 1000;
  return { page, problems, openSeconds, close: () => context.close() };
}
