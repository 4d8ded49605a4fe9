// Numbers as the command prints them.

export function count(number: number): string {
  return Math.round(number).toLocaleString("en-US");
}

/** A number of bytes with three digits and a unit: `474 MiB`. */
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = bytes;
  let unit = 0;
  // What would round up to 1024 of one unit is 1 of the next.
  while (value >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 ? 0 : decimals(value))} ${units[unit]}`;
}

/** A number of seconds with three digits and a unit: `12.5 ms`. */
export function duration(seconds: number): string {
  if (seconds <= 0) return "0 s";
  const [value, unit] =
    seconds < 0.9995e-3 ? [seconds * 1e6, "µs"] : seconds < 0.9995 ? [seconds * 1e3, "ms"] : [seconds, "s"];
  return `${value.toFixed(decimals(value))} ${unit}`;
}

export function nanoseconds(number: number): string {
  return number < 1000 && number > 0 ? `${number} ns` : duration(number / 1e9);
}

/** Floating-point operations: `2.71 TFLOP`. */
export function flops(operations: number): string {
  const units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP"];
  let value = operations;
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 ? 0 : decimals(value))} ${units[unit]}`;
}

/** A part of a whole: `12.5%`. */
export function share(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)}%` : "";
}

export function signed(seconds: number): string {
  if (Math.abs(seconds) < 1e-8) return "±0";
  return seconds < 0 ? `−${duration(-seconds)}` : `+${duration(seconds)}`;
}

function decimals(value: number): number {
  return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}
