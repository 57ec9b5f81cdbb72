import { fileURLToPath } from "node:url";

/** One call on the way to an allocation. */
export interface Frame {
  /** The function, "<anonymous>" where it has no name. */
  readonly name: string;
  /** The file, as a URL or path. */
  readonly filename: string;
  /** The line, from 1. */
  readonly line: number;
}

const packageRoot = new URL("../../", import.meta.url);
/** Bun writes paths. */
const roots = packageRoot.protocol === "file:"
  ? [packageRoot.href, fileURLToPath(packageRoot)]
  : [packageRoot.href];
const layers = ["memory/", "backend/", "tensor/", "ffi/", "mod."].flatMap((path) =>
  roots.map((root) => root + path)
);
/** A value that is read is many calls above its allocation: graph, scheduler, backend, pool. */
const MAX_FRAMES = 100;

/** The calls that led here, innermost first. */
export function captureStack(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = MAX_FRAMES;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = limit;
  return stack;
}

/**
 * The frames of a stack that are the user's. Where all are the library's own, these.
 *
 * @param stack As V8 writes it.
 */
export function userFrames(stack: string): Frame[] {
  const frames = stack.split("\n").map(parseFrame).filter((frame) => frame !== null);
  const own = frames.filter(({ filename }) =>
    !layers.some((layer) => filename.startsWith(layer)) && !/^(ext|node|deno):/.test(filename)
  );
  return own.length > 0 ? own : frames;
}

function parseFrame(line: string): Frame | null {
  const match = /^\s*at (?:(.*?) \()?(?:async )?(.+?):(\d+):\d+\)?$/.exec(line);
  if (match === null) return null;
  return { name: match[1] ?? "<anonymous>", filename: match[2]!, line: Number(match[3]) };
}

/** "train.ts:12", as reports name a place. */
export function placeOf({ filename, line }: Frame): string {
  return `${filename.split("/").at(-1)}:${line}`;
}
