// Colors by meaning. They are CSS variables, so that light, dark and print have their own; canvases ask for their values.

export const CLASSES: Record<string, string> = {
  weights: "--blue",
  gradients: "--teal",
  optimizer: "--purple",
  activations: "--orange",
  temporaries: "--yellow",
  inputs: "--gray",
  "weights and optimizer": "--blue",
  "all else": "--orange",
};

export const TIMES: Record<string, string> = {
  compute: "--blue",
  exposed_communication: "--red",
  bubble: "--idle",
  host: "--yellow",
};

/** What lies over different axes has different colors, in this order. */
const CUTS = ["--blue", "--orange", "--green", "--purple", "--teal", "--red", "--yellow", "--pink"];

const KERNELS: [RegExp, string, string][] = [
  [/^(dot_general|dot|convolution)$/, "--blue", "products"],
  [/^attention/, "--purple", "attention"],
  [/^while$/, "--gray", "further trips of a loop"],
  [/^all_gather/, "--orange", "all-gather"],
  [/^reduce_scatter/, "--red", "reduce-scatter"],
  [/^all_reduce/, "--yellow", "all-reduce"],
  [/^all_to_all/, "--green", "all-to-all"],
  [/^collective_/, "--pink", "permute"],
];

/** The color of a kernel or collective by its name, and what it stands for. */
export function kernelColor(name: string): { color: string; meaning: string } {
  const found = KERNELS.find(([pattern]) => pattern.test(name));
  return found ? { color: found[1], meaning: found[2] } : { color: "--teal", meaning: "all other kernels" };
}

/** The color of a pass of a stage by its name. */
export function passColor(name: string): string {
  if (/backward/.test(name)) return "--orange";
  if (/weights/.test(name)) return "--purple";
  if (/update/.test(name)) return "--green";
  if (/prepare|accumulate/.test(name)) return "--gray";
  return "--blue";
}

/** Gives every set of axes that cuts something a color. */
export class CutColors {
  private readonly known = new Map<string, string>();

  color(axes: string): string {
    if (axes === "") return "--whole";
    let color = this.known.get(axes);
    if (!color) {
      color = CUTS[this.known.size % CUTS.length]!;
      this.known.set(axes, color);
    }
    return color;
  }
}

let cache = new Map<string, string>();

/** The value of a variable as it is now. */
export function value(variable: string): string {
  let found = cache.get(variable);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(variable).trim() || "#888";
    cache.set(variable, found);
  }
  return found;
}

const listeners: (() => void)[] = [];

/** Calls back whenever colors are others: by the user's choice, or for print. */
export function onColors(listener: () => void): void {
  listeners.push(listener);
}

function changed(): void {
  cache = new Map();
  for (const listener of listeners) listener();
}

export function watchColors(): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.paper = "";
    changed();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    changed();
  });
}
