import type { Architecture } from "./architecture.ts";
import { gemmas } from "./gemma.ts";
import { gpts } from "./gpt.ts";
import { llamas } from "./llama.ts";

/** The table. */
export const architectures: Readonly<Record<string, Architecture>> = {
  ...llamas,
  ...gemmas,
  ...gpts,
};

/**
 * The row of a model.
 *
 * @throws {TypeError} When there is none.
 */
export function architectureOf(type: unknown): Architecture {
  const found = Object.values(architectures).find(({ types }) => types.includes(String(type)));
  if (found) return found;
  const known = Object.values(architectures).flatMap(({ types }) => types).join(", ");
  throw new TypeError(
    `Cannot load a model of architecture ${JSON.stringify(type)}: netcl reads ${known}`,
  );
}
