/**
 * The description of a device as a readable table.
 */
import { deviceProperties, type DevicePropertyName } from "@netcl/netcl/ffi";
import { cName, type Value } from "./describe.ts";
import { byteSizes } from "./properties.ts";

const labelWidth = 42;
const textWidth = 60;

const first: readonly DevicePropertyName[] = [
  "NAME",
  "VENDOR",
  "TYPE",
  "VERSION",
  "DRIVER_VERSION",
  "MAX_COMPUTE_UNITS",
  "GLOBAL_MEM_SIZE",
];

/** Words that are names. */
const spellings: { readonly [word: string]: string } = {
  id: "ID",
  fp: "floating-point",
  mem: "memory",
  addr: "address",
  svm: "SVM",
  il: "IL",
  ils: "ILs",
  opencl: "OpenCL",
  c: "C",
  args: "arguments",
  image2d: "2D image",
  image3d: "3D image",
};

/** One line a property, and as many as it takes for lists. */
export function tableOf(description: Record<string, Value>): string {
  const names = new Set([...first, ...Object.keys(deviceProperties) as DevicePropertyName[]]);
  return [...names].filter((name) => cName(name) in description)
    .flatMap((name) => rows(label(name), format(name, description[cName(name)]!))).join("\n");
}

/** `MAX_COMPUTE_UNITS` is read as `Max compute units`. */
export function label(name: string): string {
  const words = name.toLowerCase().split("_").map((word) => spellings[word] ?? word).join(" ");
  return words[0]!.toUpperCase() + words.slice(1);
}

/** `1536` is read as `1.5 KiB`. */
export function bytes(count: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${Number((count / 1024 ** unit).toFixed(1))} ${units[unit]}`;
}

function format(name: DevicePropertyName, value: Value): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return byteSizes.has(name) ? bytes(value) : String(value);
  if (typeof value === "string") return short(value) || "none";
  if (Array.isArray(value)) return value.map(item).join(" ") || "none";
  return (value.names as string[]).map(short).join(" ") || "none";
}

function item(value: Value): string {
  if (typeof value === "object" && !Array.isArray(value)) return `${value.name} ${value.version},`;
  return typeof value === "string" ? short(value) : String(value);
}

/** `CL_FP_FMA` is read as `fma`. */
function short(name: string): string {
  const groups = "FP|EXEC|QUEUE|DEVICE_TYPE|DEVICE_SVM|DEVICE_ATOMIC|DEVICE_QUEUE|" +
    "DEVICE_PARTITION|DEVICE_AFFINITY_DOMAIN";
  return name.replace(
    new RegExp(`^CL_(?:(?:${groups})_)?([A-Z_]+)$`),
    (_, rest: string) => rest.toLowerCase().replaceAll("_", "-"),
  );
}

function rows(name: string, text: string): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.replace(/,$/, "").split(" ")) {
    if (line !== "" && line.length + word.length >= textWidth) lines.push(line), line = word;
    else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].map((each, i) => `  ${(i === 0 ? name : "").padEnd(labelWidth)}${each}`);
}
