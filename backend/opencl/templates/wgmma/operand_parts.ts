/**
 * Floats as sums of numbers of bfloat16, for units that multiply those: the first part is the float rounded, the
 * next what that left. Three parts have all 24 bits of a float, two have 16.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { rangeOf } from "../../../kernel/affine.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import type { OperandMap } from "./tensor_map.ts";
import type { WgmmaProduct } from "./wgmma_product.ts";

/** Elements of a work-item, and work-items of a group. */
const SHARE = 8, GROUP = 256;

/** Writes the kernel that splits both operands. */
export function writeParts(emitter: Emitter, { a, b }: WgmmaProduct): WorkSize {
  const shares = [a, b].map(({ count }) => count / SHARE);
  const end = emitter.index(shares[0]!), all = emitter.index(shares[0]! + shares[1]!);
  emitter.line("const Index item = get_global_id(0);");
  emitter.open(`if (item < ${end}) {`);
  splitShare(emitter, a, "item");
  emitter.close();
  emitter.open(`else if (item < ${all}) {`);
  splitShare(emitter, b, `(item - ${end})`);
  emitter.close();
  const groups = Math.ceil((shares[0]! + shares[1]!) / GROUP);
  return { global: [groups * GROUP], local: [GROUP] };
}

/** Splits the elements of a work-item: the parts lie one behind the other. */
function splitShare(emitter: Emitter, operand: OperandMap, item: string): void {
  const { name, load: { input, index }, parts, first, count } = operand;
  const present = rangeOf(index, emitter.kernel.sizes)[1] + 1 - first;
  emitter.line(`const Index at = ${item} * ${SHARE};`);
  emitter.line(`global const float* from = a${input} + ${emitter.index(first)} + at;`);
  emitter.line(`const Index left = ${emitter.index(present)} - at;`);
  emitter.line(`float v[${SHARE}];`);
  emitter.open(`if (left >= ${SHARE}) {`);
  for (const h of [0, 4]) {
    emitter.line(`vstore4(*(global const float4*)(from + ${h}), 0, v + ${h});`);
  }
  emitter.close();
  emitter.line(`else for (int e = 0; e < ${SHARE}; ++e) v[e] = e < left ? from[e] : 0;`);
  emitter.line(`uint w[${SHARE / 2}];`);
  for (let part = 0; part < parts; part++) {
    for (let e = 0; e < SHARE / 2; e++) {
      emitter.line(`MMA_PACK_BF16(w[${e}], v[${2 * e}], v[${2 * e + 1}]);`);
      if (part === parts - 1) continue;
      emitter.line(`v[${2 * e}] -= as_float(w[${e}] << 16);`);
      emitter.line(`v[${2 * e + 1}] -= as_float(w[${e}] & 0xffff0000u);`);
    }
    const to = `parts_${name} + ${emitter.index(part * count)} + at`;
    emitter.line(`*(global uint4*)(${to}) = (uint4)(w[0], w[1], w[2], w[3]);`);
  }
}
