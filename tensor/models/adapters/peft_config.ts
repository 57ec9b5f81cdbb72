/** adapter_config.json, as PEFT writes it. */
import { FileFormatError, shown } from "../../io/core/file_format_error.ts";
import { parseJsonObject } from "../../io/core/json.ts";

/** Settings of PEFT that change what is computed, and what they must be. */
const plain: Readonly<Record<string, unknown>> = {
  peft_type: "LORA",
  use_dora: false,
  use_qalora: false,
  lora_bias: false,
  bias: "none",
  alora_invocation_tokens: null,
  layer_replication: null,
  use_bdlora: null,
};

/** Settings of adapters in a file. */
export interface PeftConfig {
  readonly rank: number;
  readonly alpha: number;
  readonly dropout: number;
  /** Other factors of single layers, by expressions for the ends of their names. */
  readonly alphas: readonly (readonly [RegExp, number])[];
  /** True where products are divided by the root of the rank. */
  readonly isRooted: boolean;
}

/** Reads adapter_config.json. */
export function configIn(text: string): PeftConfig {
  const config = parseJsonObject(text, "It");
  for (const [name, value] of Object.entries(plain)) {
    if ((config[name] || null) === (value || null)) continue;
    throw new FileFormatError(
      `It has ${name} = ${shown(config[name])}: netcl reads ${shown(value)}`,
    );
  }
  for (const name of ["modules_to_save", "target_parameters", "trainable_token_indices"]) {
    if (Object.keys(config[name] ?? {}).length === 0) continue;
    throw new FileFormatError(`It has ${name}: netcl reads adapters of layers alone`);
  }
  const { r: rank, lora_alpha: alpha = rank, lora_dropout: dropout = 0 } = config;
  if (!Number.isInteger(rank) || typeof alpha !== "number" || typeof dropout !== "number") {
    throw new FileFormatError("It has no rank r, or alpha or dropout that are no numbers");
  }
  const alphas = Object.entries(config.alpha_pattern ?? {}).map(([pattern, own]) => {
    try {
      return [new RegExp(`^(.*\\.)?(${pattern.replace(/^\^/, "")})$`), Number(own)] as const;
    } catch (error) {
      throw new FileFormatError(`It has the alpha_pattern ${shown(pattern)}: ${error}`);
    }
  });
  return { rank: rank as number, alpha, dropout, alphas, isRooted: config.use_rslora === true };
}

/** A name as a regular expression. */
export function escaped(name: string): string {
  return name.replaceAll(".", "\\.");
}

/** A number without what binary fractions add to it. */
export function rounded(x: number): number {
  return Number(x.toPrecision(12));
}
