/** Models of the Hugging Face hub, kept in the user's cache folder: fetched once, resumed, and checked. */
import { interruptSignal } from "@netcl/netcl";
import { screen } from "../terminal/live_screen.ts";
import { modelFolder, sha256, statOf } from "./registry_models.ts";

/** A file of a model, as the hub lists it. */
interface HubFile {
  readonly rfilename: string;
  readonly size?: number;
  /** There for large files. */
  readonly lfs?: { readonly sha256: string; readonly size: number };
}

/** The host that models are fetched from: HF_ENDPOINT names another place of the same shape. */
function endpoint(): string {
  return (Deno.env.get("HF_ENDPOINT") ?? "https://huggingface.co").replace(/\/$/, "");
}

function headers(): Record<string, string> {
  const token = Deno.env.get("HF_TOKEN");
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** The result of a request; the error of a connection with its remedy. Ctrl+C stays what it is. */
async function online<T>(request: Promise<T>, remedy: string): Promise<T> {
  try {
    return await request;
  } catch (error) {
    if (interruptSignal.aborted || !(error instanceof TypeError)) throw error;
    const { message } = (error.cause ?? error) as Error;
    throw new Error(`${message}: ${remedy}`, { cause: error });
  }
}

async function fetched(url: string, init: RequestInit): Promise<Response> {
  const response = await online(
    fetch(url, { ...init, signal: interruptSignal }),
    "HF_ENDPOINT names another host of the hub's shape; --model takes a file or a folder, too, " +
      "and the names that its help lists come from Python's package registry",
  );
  if (response.ok) return response;
  await response.body?.cancel();
  const hint = response.status === 401 || response.status === 403
    ? ": the model may ask for a consent; set HF_TOKEN"
    : "";
  throw new Error(`Cannot fetch ${url}: ${response.status} ${response.statusText}${hint}`);
}

/** The files of a folder that a model is made of. */
const isWanted = /^(1_Pooling\/)?[\w.-]+\.json$|^chat_template\.jinja$|^model[\w.-]*\.safetensors$/;

/** A name that stays within the folder of the model. */
function requireInside(name: string): void {
  const isInside = !name.split("/").includes("..") && !/^[/\\]|\\/.test(name);
  if (!isInside) throw new Error(`The hub lists a file "${name}", which lies outside of the model`);
}

/**
 * The path of a model of the hub.
 *
 * @param name "owner/model", or "owner/model/file.gguf" for one file of it.
 * @throws {Error} Where it cannot be fetched, or is not what the hub lists.
 */
export async function hubModel(name: string): Promise<string> {
  const [owner, model, ...rest] = name.split("/"), one = rest.join("/");
  const folder = `${modelFolder()}/${owner}/${model}`;
  if (await statOf(`${folder}/${one || "complete"}`)) return one ? `${folder}/${one}` : folder;
  const listed = await fetched(`${endpoint()}/api/models/${owner}/${model}?blobs=true`, {
    headers: headers(),
  });
  const { siblings } = await listed.json() as { siblings: HubFile[] };
  const files = siblings.filter(({ rfilename }) =>
    one ? rfilename === one : isWanted.test(rfilename)
  );
  if (files.length === 0) throw new Error(`The model ${name} has no such file on the hub`);
  for (const file of files) {
    requireInside(file.rfilename);
    await fetchFile(`${endpoint()}/${owner}/${model}/resolve/main`, file, folder);
  }
  if (!one) await Deno.writeTextFile(`${folder}/complete`, name);
  return one ? `${folder}/${one}` : folder;
}

/** Fetches a file, or what is left of it, and checks it. */
async function fetchFile(base: string, file: HubFile, folder: string): Promise<void> {
  const path = `${folder}/${file.rfilename}`, part = `${path}.part`;
  if (await statOf(path)) return;
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  const size = file.lfs?.size ?? file.size ?? 0, had = (await statOf(part))?.size ?? 0;
  if (had === 0 || had < size) {
    await append(`${base}/${file.rfilename}`, part, had, size, file.rfilename);
  }
  const found = (await Deno.stat(part)).size;
  const digest = file.lfs && await sha256(part);
  if ((size > 0 && found !== size) || (file.lfs && digest !== file.lfs.sha256)) {
    await Deno.remove(part);
    throw new Error(`${file.rfilename} is not what the hub lists: it was taken away; run it again`);
  }
  await Deno.rename(part, path);
}

async function append(
  url: string,
  part: string,
  from: number,
  size: number,
  name: string,
): Promise<void> {
  const range = from > 0 ? { range: `bytes=${from}-` } : {};
  const response = await fetched(url, { headers: { ...headers(), ...range } });
  // Who does not know ranges sends all.
  const isRest = response.status === 206;
  using file = await Deno.open(part, {
    create: true,
    write: true,
    append: isRest,
    truncate: !isRest,
  });
  let done = isRest ? from : 0, told = 0;
  const chunks = response.body!.getReader(), rest = "run it again: what has come is kept";
  for (;;) {
    const { value: chunk } = await online(chunks.read(), rest);
    if (!chunk) break;
    for (let at = 0; at < chunk.length;) at += await file.write(chunk.subarray(at));
    done += chunk.byteLength;
    if (performance.now() - told < 200) continue;
    told = performance.now();
    screen.show([progressLine(name, done, size)]);
  }
  screen.show([]);
}

/** A bar of what has come. */
export function progressLine(name: string, done: number, size: number): string {
  const share = size > 0 ? Math.min(1, done / size) : 0, width = 30;
  const bar = "█".repeat(Math.round(share * width)).padEnd(width, "░");
  return `${name} ${bar} ${(done / 1e6).toFixed(0)} of ${(size / 1e6).toFixed(0)} MB`;
}
