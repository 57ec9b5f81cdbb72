import { assert, assertEquals } from "@std/assert";
import { blockBytes, formatTable } from "../../../../backend/internal.ts";
import { noGrad, Tensor } from "../../../../mod.ts";
import type { BlockType } from "../../../../tensor/io/gguf/gguf_format.ts";
import { decodeGguf, GgufFile } from "../../../../tensor/io/gguf/gguf.ts";
import { PackedMatrix } from "../../../../tensor/models/weights/packed_matrix.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";

const path = new URL("../../io/gguf/fixtures/blocks.gguf", import.meta.url);
const blockTypes = (Object.keys(formatTable) as (keyof typeof formatTable)[])
  .filter((name): name is BlockType => name.startsWith("Q"));
const decoded = decodeGguf(Deno.readFileSync(path)).arrays;

testOnBackends("a PackedMatrix and its products have ggml's bits", async (backend) => {
  using file = await GgufFile.open(path);
  for (const type of blockTypes) {
    const { data } = decoded[type]!, { shape } = file.tensors.get(type)!;
    using matrix = new PackedMatrix(type, Tensor.fromBlocks(await file.read(type), type), shape);
    const whole = new Uint32Array((await matrix.decode().toHost()).buffer);
    assertEquals(whole, new Uint32Array(data.buffer), type);
    const ids = Tensor.fromHost(Int32Array.of(shape[0]! - 1, 0));
    const rows = (data as Float32Array).length / shape[0]!;
    assertEquals(await matrix.rows(ids).slice(0).toHost(), data.slice(-rows), `${type}: rows`);
    const plain = Tensor.fromHost(data, { shape: [...shape] });
    for (const count of backend === "cpu" ? [1, 3, 9] : [1]) {
      const x = Tensor.randn([count, shape[1]!]), a = x.detach(), b = x.detach();
      a.requiresGrad = b.requiresGrad = true;
      const y = matrix.forward(a), due = b.matmul(plain.transpose());
      // Rows may be rounded to 16 bits, by blocks.
      const rounding = x.abs().max().div(65534).mul(plain.abs().sum(1));
      const excess = y.sub(due).abs().sub(rounding).relu();
      const most = 1e-4 * (1 + await due.abs().max().item());
      assert(await excess.max().item() <= most, `${type}: a product of ${count}`);
      y.square().sum().backward();
      due.square().sum().backward();
      const carried = rounding.mul(2).unsqueeze(0).matmul(plain.abs());
      const apart = a.grad!.sub(b.grad!).abs().sub(carried).sub(b.grad!.abs().mul(1e-3));
      assert(await apart.max().item() <= 1e-2, `${type}: a gradient of ${count}`);
    }
  }
});

testOnCPU("a PackedMatrix takes the memory of its blocks", () => {
  for (const type of blockTypes) {
    const format = formatTable[type], bytes = new Uint8Array(4 * blockBytes(format));
    const matrix = new PackedMatrix(type, Tensor.fromBlocks(bytes, type), [4, format.elements]);
    const held = Object.values(noGrad(() => matrix.stateDict()))
      .reduce((n, { size, dtype }) => n + size * (dtype === "float16" ? 2 : 1), 0);
    assertEquals(held, bytes.length, type);
    matrix.dispose();
  }
});

testOnBackends("PackedMatrix.chosen has the parts of ids, below or beside another", async () => {
  for (const type of ["Q8_0", "Q4_K"] as const) {
    const columns = type === "Q8_0" ? 32 : 256, bytes = type === "Q8_0" ? 34 : 144;
    // Twelve blocks: three parts of two rows of two blocks; or three of four rows of one.
    const data = Uint8Array.from({ length: 12 * bytes }, (_, k) => k * 37 % 64);
    const ids = Tensor.fromHost(Int32Array.of(2, 0));
    using below = new PackedMatrix(type, Tensor.fromBlocks(data, type), [6, 2 * columns]);
    using rows = below.chosen(1, 3, ids);
    assertEquals(rows.shape, [4, 2 * columns]);
    const all = await below.decode().reshape([3, 2, -1]).indexSelect(0, ids).toNumbers();
    assertEquals(await rows.decode().toNumbers(), all);
    using beside = new PackedMatrix(type, Tensor.fromBlocks(data, type), [4, 3 * columns]);
    using part = beside.chosen(4, 3, ids);
    assertEquals(part.shape, [4, 2 * columns]);
    const own = await beside.decode().reshape([4, 3, -1]).indexSelect(1, ids).toNumbers();
    assertEquals(await part.decode().toNumbers(), own);
  }
});
