/** WebAssembly's encoding of numbers, names and sections of a module. */

/** The first byte of how memory is accessed, and where it is not the shared one its number. */
export const memoryOf = (isPrivate: boolean): number[] => isPrivate ? [0x40, 1] : [0];

/** The declaration of local variables: equal types in a row are told once, with their number. */
export function localsOf(types: readonly number[]): number[] {
  const groups: { type: number; count: number }[] = [];
  for (const type of types) {
    const last = groups.at(-1);
    if (last?.type === type) last.count++;
    else groups.push({ type, count: 1 });
  }
  return [
    ...unsigned(groups.length),
    ...groups.flatMap(({ type, count }) => [...unsigned(count), type]),
  ];
}

/** Types of values, and that of a block which leaves none. */
export const I32 = 0x7f, V128 = 0x7b, EMPTY = 0x40;

/** An unsigned number in LEB128. */
export function unsigned(value: number): number[] {
  if (value < 0x80) return [value];
  const bytes: number[] = [];
  for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}

/** A signed number in LEB128. */
export function signed(value: number): number[] {
  const bytes: number[] = [];
  for (;;) {
    const low = value & 0x7f;
    value >>= 7;
    if (value === 0 && !(low & 0x40) || value === -1 && low & 0x40) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

/** A section of a module: its number, its size, its content. */
export function section(id: number, content: readonly number[]): number[] {
  return [id, ...unsigned(content.length), ...content];
}

/** A text of ASCII with its length. */
export const name = (text: string): number[] => [text.length, ...new TextEncoder().encode(text)];
