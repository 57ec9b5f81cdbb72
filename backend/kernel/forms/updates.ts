/** Results that may lie where an input lies, as the next value of a parameter where the former one is. */
import { type AffineExpr, affineKey } from "../affine.ts";
import { reductionStages, usesInner } from "../analysis.ts";
import { isMap, type Launchable, type LoopKernel } from "../kernel.ts";

/** An input and an output of a launch, by their places. */
export type Update = readonly [input: number, output: number];

/**
 * The pairs of a launch of which the output may be written to the memory of the input, if no other input lies
 * there: each element is read for the one of the same place alone, by the work-item that stores it afterwards.
 * On processors that holds of maps: products and reductions there may add up in the memory of a result.
 */
export function updatesOf(kernel: Launchable, isGpu: boolean): readonly Update[] {
  const { members, written } = kernel.kind === "horizontal"
    ? kernel
    : { members: [kernel], written: [0] };
  let input = 0, output = 0;
  return members.flatMap((member, k) => {
    const found = member.kind === "loop" && (isMap(member) || isGpu && isWalkedOnce(member))
      ? pairsOf(member).map(([from, to]): Update => [from + input, to + output])
      : [];
    input += member.inputs.length;
    output += written[k]!;
    return found;
  });
}

/** True where all that is read comes before what is stored of an element of the outer loops. */
function isWalkedOnce(kernel: LoopKernel): boolean {
  return reductionStages(kernel).length <= 1 &&
    !kernel.outputs.some((_, k) => usesInner(kernel, k));
}

function pairsOf(kernel: LoopKernel): Update[] {
  const { inputs, outputs, loads, contraction, prepared = [] } = kernel;
  const operands = contraction === null ? [] : [contraction.a, contraction.b];
  const taken = new Set([...operands, ...prepared].map(({ input }) => input));
  return inputs.flatMap((dtype, input) => {
    const own = loads.filter((load) => load.input === input);
    if (own.length === 0 || taken.has(input)) return [];
    const isAt = (index: AffineExpr): boolean =>
      own.every((load) =>
        !load.packed && load.bounds.length === 0 && affineKey(load.index) === affineKey(index)
      );
    return outputs.flatMap(({ index, dtype: stored }, output): Update[] =>
      stored === dtype && isAt(index) ? [[input, output]] : []
    );
  });
}
