/** Kernels as JavaScript functions: each text is compiled once. */
import type { Parameter } from "../../codegen/emit.ts";
import { fromBfloat16Bits, toBfloat16Bits, type TypedArray } from "../../graph/dtype.ts";
import { hostBlocks } from "../../formats/host_blocks.ts";
import { opName } from "../../graph/index_error.ts";
import type { LoopKernel } from "../../kernel/kernel.ts";
import { countBuild } from "../../profiling/counters.ts";
import {
  type GeneratedScript,
  generateScript,
  generateSpecialScript,
  type ScriptedSpecial,
} from "./codegen.ts";
import { arraysOf, type CheckIndex, outputTypes, type Runner } from "./runner.ts";
import * as scalar from "../../graph/scalar.ts";

type Compiled = (
  inputs: readonly TypedArray[],
  outputs: readonly TypedArray[],
  parameters: readonly (number | bigint)[],
) => void;

/** Compiles what a backend runs as JavaScript. */
export class ScriptCompiler {
  readonly #compiled = new Map<string, Compiled>();
  readonly #check: CheckIndex;

  /** @param check What is done with an index that is out of range. */
  constructor(check: CheckIndex) {
    this.#check = check;
  }

  /** A runner of generated JavaScript: every kernel has one. */
  runner(kernel: LoopKernel | ScriptedSpecial): Runner {
    const script = kernel.kind === "special"
      ? generateSpecialScript(kernel)
      : generateScript(kernel);
    const compiled = this.#compile(script, kernel.inputs.length);
    return {
      source: script.body,
      run: (reads, writes) =>
        compiled(
          arraysOf(reads, kernel.inputs),
          arraysOf(writes, outputTypes(kernel)),
          script.parameters.map(parameterValue),
        ),
    };
  }

  #compile(script: GeneratedScript, inputs: number): Compiled {
    const known = this.#compiled.get(script.body);
    if (known) return known;
    const check = this.#check;
    const compiled = compile(script, inputs, (value, size, op) => check(value, size, opName(op)));
    countBuild();
    this.#compiled.set(script.body, compiled);
    return compiled;
  }

  /** Forgets what was compiled. */
  clear(): void {
    this.#compiled.clear();
  }
}

function parameterValue(p: Parameter): number | bigint {
  if (p.kind === "stream") return p.stream.value;
  return p.kind === "constant" && p.dtype === "int64" ? BigInt(Math.trunc(p.value)) : p.value;
}

const helpers = { ...scalar, fromBfloat16Bits, toBfloat16Bits, hostBlocks };

function compile(
  script: GeneratedScript,
  inputs: number,
  checkedIndex: (value: number, size: number, op: number) => number,
): Compiled {
  const reads = Array.from({ length: inputs }, (_, k) => `a${k}`).join();
  const outputs = new Set(script.body.match(/\bo\d+\b/g));
  const writes = Array.from({ length: outputs.size }, (_, k) => `o${k}`).join();
  const parameters = script.parameters.map((_, k) => `p${k}`).join();
  const names = Object.keys(helpers).join();
  // V8 compiles a function in parentheses with the one around it: others are parsed once more.
  const make = new Function(
    "helpers",
    "checkedIndex",
    `"use strict"; const { ${names} } = helpers;
return (function ([${reads}], [${writes}], [${parameters}]) {\n${script.body}\n});`,
  ) as (h: typeof helpers, c: typeof checkedIndex) => Compiled;
  return make(helpers, checkedIndex);
}
