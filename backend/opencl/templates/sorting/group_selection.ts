/**
 * The first places of sorted rows on GPUs, a group a row: digit by digit it counts how many keys begin with what,
 * and so finds the last key that belongs to them; of equal ones the first belong. Only what belongs is
 * sorted. On an H200 the 50 largest of 1,024 rows of 32,000 floats take by sorting all 1.45 ms.
 */
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";
import { type Argsort, keyTypeOf, sortKey } from "./merge_argsort.ts";

/** Work-items of a group: one for each value of a digit of eight bits. */
const GROUP = 256;
/** Short rows, of which many are there, are walked by an item each where few places are wanted. */
const SHORT = 256, FEW = 8, MANY_ROWS = 4096;

/** Selection of no more places than a group has work-items. */
export const groupSelection: SpecialTemplate<Planned<Argsort>> = {
  name: "group selection",
  matches: (kernel, target) => {
    if (!target.isGpu || kernel.op !== "argsort") return null;
    const { count, length, rows } = kernel;
    const isWalked = length <= SHORT && count <= FEW && rows >= MANY_ROWS;
    return count < length && count <= GROUP && !isWalked ? { kernel, target } : null;
  },
  workItems: ({ kernel }) => kernel.rows * GROUP,
  emit: (plan) => [generatedSpecial(
    plan,
    (p) => select(plan.kernel, p),
    Math.max(1, plan.kernel.rows),
    GROUP,
  )],
};

function select(kernel: Argsort, p: Parameters): string {
  const U = keyTypeOf(kernel), key = sortKey(kernel, "start + k");
  const [length, count] = [p.index(kernel.length), p.index(kernel.count)];
  const placeBits = 8 * Math.max(1, Math.ceil(Math.log2(kernel.length) / 8));
  return `  local uint counts[${GROUP}];
  local int chosen[2];
  local ${U} keys[${GROUP}];
  local Index places[${GROUP}];
  local int found;
  const int item = get_local_id(0);
  const Index start = (Index)get_group_id(0) * ${length};
  ${U} first = 0, mask = 0;
  Index place = 0, placeMask = 0;
  int need = (int)${count}, more = 1;
${digits({ bits: U === "ulong" ? 64 : 32, key, of: "key", test: "(key & mask) == first", length })}
      first |= (${U})digit << shift;
      mask |= (${U})255 << shift;
${rest}
${
    digits({
      bits: placeBits,
      key,
      of: "k",
      test: "(key & mask) == first && (k & placeMask) == place",
      length,
    })
  }
      place |= (Index)digit << shift;
      placeMask |= (Index)255 << shift;
${rest}
  if (item == 0) found = 0;
  keys[item] = ~(${U})0;
  places[item] = ${length};
  barrier(CLK_LOCAL_MEM_FENCE);
  for (Index k = item; k < ${length}; k += ${GROUP}) {
    ${key}
    const ${U} begins = key & mask;
    if (begins < first || (begins == first && (k & placeMask) <= place)) {
      const int at = atomic_inc(&found);
      keys[at] = key;
      places[at] = k;
    }
  }
${sortText(U)}
  if (item < ${count}) o0[(Index)get_group_id(0) * ${count} + item] = places[item];`;
}

/** Behind what a turn has learned: whether all that begins so belongs to the first. */
const rest = `      const int isWhole = counts[digit] == (uint)need;
      barrier(CLK_LOCAL_MEM_FENCE);
      more = !isWhole;
      if (isWhole) break;
    }`;

/** Opens the turns over digits, the highest first, while more is taken than there is need of. */
function digits(
  { bits, key, of, test, length }: {
    readonly bits: number;
    readonly key: string;
    readonly of: string;
    readonly test: string;
    readonly length: string;
  },
): string {
  return `  if (more)
    for (int shift = ${bits - 8}; shift >= 0; shift -= 8) {
      counts[item] = 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (Index k = item; k < ${length}; k += ${GROUP}) {
        ${key}
        if (${test}) atomic_inc(&counts[(int)((${of} >> shift) & 255)]);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      if (item == 0) {
        int digit = 0, left = need;
        while (counts[digit] < (uint)left) left -= counts[digit++];
        chosen[0] = digit;
        chosen[1] = left;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      const int digit = chosen[0];
      need = chosen[1];`;
}

/** Sorts the keys of a group by pairs that are ever nearer, equal ones by their places. */
function sortText(U: string): string {
  return `  for (int run = 2; run <= ${GROUP}; run <<= 1) {
    for (int apart = run >> 1; apart > 0; apart >>= 1) {
      barrier(CLK_LOCAL_MEM_FENCE);
      const int a = 2 * apart * (item / apart) + item % apart, b = a + apart;
      if (b < ${GROUP}) {
        const ${U} x = keys[a], y = keys[b];
        const Index at = places[a], to = places[b];
        if ((x > y || (x == y && at > to)) == ((a & run) == 0)) {
          keys[a] = y;
          keys[b] = x;
          places[a] = to;
          places[b] = at;
        }
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);`;
}
