/** Files given to a reader of another kind: by what they begin with, and who reads them. */

interface Kind {
  readonly begin: readonly number[];
  readonly what: string;
}

const models = 'of "@netcl/netcl/models"';

const kinds: readonly Kind[] = [
  {
    begin: [0x50, 0x4b, 3, 4],
    what:
      "a ZIP archive: loadTorch reads checkpoints of PyTorch (.pt, .pth), loadNpz archives of " +
      `NumPy (.npz), both ${models}`,
  },
  { begin: [0x80], what: `a pickle: loadTorch ${models} reads checkpoints of PyTorch` },
  {
    begin: [...new TextEncoder().encode("GGUF")],
    what: `a GGUF file: loadGguf ${models} reads it`,
  },
  { begin: [0x93, ...new TextEncoder().encode("NUMPY")], what: "a .npy file: loadNpy reads it" },
  { begin: [0x1f, 0x8b], what: "compressed with gzip: expand it first" },
];

/** The end of a sentence about a file of another kind: what it is, and what reads it; "" if unknown. */
export function readerOf(bytes: Uint8Array): string {
  const kind = kinds.find(({ begin }) => begin.every((byte, k) => bytes[k] === byte));
  return kind ? `. It is ${kind.what}` : "";
}
