import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  Buffer,
  Image,
  OpenCLError,
  Program,
  Sampler,
  type SamplerOptions,
} from "../../../ffi/mod.ts";
import { contentOf, context, device, hasOpenCL, leftBehind, queue } from "../fixture.ts";

const ignore = !hasOpenCL || !device.query("IMAGE_SUPPORT");
const format = { order: "RGBA", type: "UNSIGNED_INT8" } as const;

function test(name: string, fn: () => void | Promise<void>): void {
  Deno.test(name, { ignore }, fn);
}

test("Image lists the formats that a context offers", () => {
  const formats = Image.formats(context, "2d");
  assert(formats.some(({ order, type }) => order === "RGBA" && type === "FLOAT"));
});

test("Image moves elements there and back, whole and in parts", async () => {
  const data = Uint8Array.from({ length: 4 * 3 * 4 }, (_, i) => i);
  using image = new Image(context, { format, width: 4, height: 3, data });
  assertEquals([image.type, image.elementSize, ...image.extent], ["2d", 4, 4, 3, 1]);
  image.write(queue, new Uint8Array(8).fill(99), { origin: [1, 1, 0], region: [2, 1, 1] })
    .release();
  const out = new Uint8Array(48);
  await image.read(queue, out).wait();
  const expected = data.slice();
  expected.fill(99, 4 * 5, 4 * 7);
  assertEquals(out, expected);
  const corner = new Uint8Array(4);
  image.read(queue, corner, { origin: [3, 2, 0], region: [1, 1, 1], blocking: true }).release();
  assertEquals([...corner], [44, 45, 46, 47]);
  assertThrows(() => image.read(queue, corner), RangeError, "they take 48 bytes, there are 4");
});

test("Image is filled and copied, also from and to buffers", async () => {
  using a = new Image(context, { format, width: 2, height: 2 });
  using b = new Image(context, { format, width: 2, height: 2 });
  using buffer = new Buffer(context, 32);
  a.fill(queue, new Uint32Array([1, 2, 3, 4])).release();
  a.copyTo(queue, b).release();
  queue.fill(buffer, new Uint8Array([8])).release();
  b.copyToBuffer(queue, buffer, { offset: 16, region: [1, 2, 1] }).release();
  const bytes = await contentOf(buffer, new Uint8Array(32));
  assertEquals(bytes.slice(14, 26), [8, 8, 1, 2, 3, 4, 1, 2, 3, 4, 8, 8]);
  a.copyFromBuffer(queue, buffer).release();
  const out = new Uint8Array(16);
  await a.read(queue, out).wait();
  assertEquals([...out], Array(16).fill(8));
  assertThrows(() => a.fill(queue, new Float32Array(3)), RangeError, "pass 4");
});

test("images of one and three dimensions have their extents", () => {
  using line = new Image(context, { format, width: 8 });
  using volume = new Image(context, { format, width: 4, height: 3, depth: 2 });
  using layers = new Image(context, { format, width: 4, height: 3, layers: 5 });
  assertEquals([line.type, ...line.extent], ["1d", 8, 1, 1]);
  assertEquals([volume.type, ...volume.extent], ["3d", 4, 3, 2]);
  assertEquals([layers.type, ...layers.extent], ["2d-array", 4, 3, 5]);
});

test("a kernel reads an image through a sampler: as it says, in elements or in shares", async () => {
  using program = new Program(
    context,
    `kernel void pick(read_only image2d_t image, sampler_t sampler, float x, global float4* out) {
      out[0] = read_imagef(image, sampler, (float2)(x, 0.5f));
    }`,
  ).build();
  const data = new Float32Array([1, 1, 1, 1, 2, 3, 4, 5]);
  const options = { format: { order: "RGBA", type: "FLOAT" }, width: 2, height: 1, data } as const;
  using image = new Image(context, options);
  using out = new Buffer(context, 16);
  using kernel = program.kernel("pick");
  const pick = async (options: SamplerOptions, x: number) => {
    using sampler = new Sampler(context, options);
    queue.run(kernel, { global: [1], args: [image, sampler, x, out] }).release();
    const values = await contentOf(out, new Float32Array(4));
    return [...values];
  };
  assertEquals(await pick({ addressing: "clamp-to-edge" }, 5.5), [2, 3, 4, 5]);
  assertEquals(await pick({}, 0.75), [1, 1, 1, 1]);
  assertEquals(await pick({ normalized: true }, 0.75), [2, 3, 4, 5]);
});

test("an image that cannot be made says which, and leaves nothing behind", async () => {
  const left = await leftBehind(() => {
    const bad = () => new Image(context, { format: { order: "Rx", type: "FLOAT" }, width: 4 });
    assert(assertThrows(bad, OpenCLError).message.includes("a 1d image of Rx FLOAT"));
  });
  assertEquals(left, {});
});
