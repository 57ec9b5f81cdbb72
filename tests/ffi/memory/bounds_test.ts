/**
 * No call from JavaScript lets the driver read or write outside of what it was given. Every command
 * with a size, an offset or a pointer meets hostile values here.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  Buffer,
  CommandBuffer,
  Image,
  Program,
  type RectLayout,
  SvmBuffer,
  type Triple,
} from "../../../ffi/mod.ts";
import { context, device, hasOpenCL, program, queue, testOpenCL } from "../fixture.ts";

const hasImages = hasOpenCL && device.query("IMAGE_SUPPORT");
const hasSvm = hasOpenCL && SvmBuffer.isAvailable(device, { fineGrain: true });
const hasCommandBuffers = hasOpenCL && device.extensions.includes("cl_khr_command_buffer");

/** An array in the middle of a larger one, whose other bytes say whether somebody wrote there. */
function guarded(nbytes: number): { view: Uint8Array; intact: () => boolean } {
  const all = new Uint8Array(nbytes + 8192).fill(0x5a);
  const view = all.subarray(4096, 4096 + nbytes);
  const outside = () => [all.subarray(0, 4096), all.subarray(4096 + nbytes)];
  return { view, intact: () => outside().every((part) => part.every((byte) => byte === 0x5a)) };
}

testOpenCL("a box that C takes as densely packed must fit like one: a row pitch of 0", () => {
  using buffer = new Buffer(context, 1600, { data: new Uint8Array(1600).fill(7) });
  for (const host of [{ rowPitch: 0 }, { slicePitch: 0 }, { rowPitch: 0, slicePitch: 0 }]) {
    for (const blocking of [true, false]) {
      const { view, intact } = guarded(16);
      assertThrows(
        () => queue.readRect(buffer, view, { region: [16, 100, 1], host, blocking }),
        RangeError,
        "it has 16",
      );
      queue.finishSync();
      assert(intact(), JSON.stringify({ host, blocking }));
      assertThrows(
        () => queue.writeRect(buffer, view, { region: [16, 100, 1], host, blocking }),
        RangeError,
        "it has 16",
      );
    }
  }
});

const size = fc.constantFrom(0, 1, 2, 3, 7, 16, 33, -1, 1.5, NaN, 2 ** 53);
const triple = fc.tuple(size, size, size) as fc.Arbitrary<Triple>;
const layout: fc.Arbitrary<RectLayout> = fc.record(
  { origin: triple, rowPitch: size, slicePitch: size },
  { requiredKeys: [] },
);

testOpenCL("no box, whatever its numbers, reaches bytes outside of the array", () => {
  using buffer = new Buffer(context, 4096);
  queue.fill(buffer, new Uint8Array([7])).release();
  const box = fc.record({ region: triple, host: layout, buffer: layout, noCopy: fc.boolean() });
  fc.assert(
    fc.property(box, fc.boolean(), (options, blocking) => {
      const { view, intact } = guarded(64);
      try {
        queue.readRect(buffer, view, { ...options, blocking }).release();
      } catch (error) {
        // The driver would say CL_INVALID_VALUE; most of it is refused before.
        assert(error instanceof Error);
      }
      queue.finishSync();
      assert(intact());
    }),
    { numRuns: 400, seed: 11 },
  );
});

/** Ranges that are refused, for memory of 64 bytes. */
const badRanges = [
  { offset: -16, nbytes: 16 },
  { offset: -64 },
  { offset: 0, nbytes: -16 },
  { offset: 1.5, nbytes: 16 },
  { offset: NaN, nbytes: 16 },
  { offset: 0, nbytes: NaN },
  { offset: 64, nbytes: 16 },
  { offset: 80 },
  { offset: 2 ** 53, nbytes: 16 },
  { nbytes: Infinity },
];

testOpenCL("a part of a buffer lies within it, for every command", () => {
  using buffer = new Buffer(context, 64), other = new Buffer(context, 64);
  const pattern = new Uint8Array(16);
  for (const range of badRanges) {
    const { offset = 0, nbytes = 16 } = range;
    const attempts = [
      () => queue.fill(buffer, pattern, range),
      () => queue.map(buffer, range),
      () => queue.copy(buffer, other, { sourceOffset: offset, nbytes }),
      () => queue.copy(buffer, other, { destinationOffset: offset, nbytes }),
      () => buffer.subBuffer(offset, nbytes),
    ];
    for (const attempt of attempts) assertThrows(attempt, RangeError);
  }
  for (const offset of [-16, 1.5, NaN, 49, 2 ** 53]) {
    const reason = offset === 49 ? "it has 64 bytes" : `${offset}`;
    assertThrows(() => queue.read(buffer, pattern, { offset }), RangeError, reason);
    assertThrows(() => queue.write(buffer, pattern, { offset }), RangeError, reason);
  }
  assertThrows(() => buffer.subBuffer(32, 64), RangeError, "64 bytes from offset 32");
  queue.finishSync();
});

testOpenCL("a pattern is 1, 2, 4 ... 128 bytes, which divide offset and size", () => {
  using buffer = new Buffer(context, 256);
  for (const nbytes of [0, 3, 48, 256]) {
    assertThrows(() => queue.fill(buffer, new Uint8Array(nbytes)), RangeError, `${nbytes} bytes`);
  }
  const pattern = new Float64Array(1);
  assertThrows(() => queue.fill(buffer, pattern, { offset: 4, nbytes: 8 }), RangeError, "offset 4");
  assertThrows(() => queue.fill(buffer, pattern, { nbytes: 12 }), RangeError, "12 bytes");
});

Deno.test("a part of shared memory lies within it, for every command", { ignore: !hasSvm }, () => {
  using memory = new SvmBuffer(context, 64), other = new SvmBuffer(context, 64);
  using kernel = program.kernel("put");
  for (const range of badRanges) {
    assertThrows(() => memory.fill(queue, new Uint8Array(16), range), RangeError);
    assertThrows(() => memory.map(queue, range), RangeError);
  }
  for (const nbytes of [-1, 65, NaN, 1.5]) {
    assertThrows(() => memory.copyTo(queue, other, nbytes), RangeError);
  }
  for (const offset of [-4, 65, 0.5, NaN]) {
    assertThrows(() => kernel.setSvm(0, memory, offset), RangeError, "shared memory");
  }
  assertThrows(() => memory.fill(queue, new Uint8Array(3)), RangeError, "3 bytes");
  queue.finishSync();
});

Deno.test("images move no more elements than array and image have", { ignore: !hasImages }, () => {
  const format = { order: "RGBA", type: "FLOAT" } as const;
  assertThrows(
    () => new Image(context, { format, width: 64, height: 64, data: new Uint8Array(16) }),
    RangeError,
    "65536 bytes from an array of 16",
  );
  assertThrows(() => new Image(context, { format, width: -1 }), RangeError);
  using image = new Image(context, { format, width: 4, height: 4 });
  using small = new Image(context, { format, width: 2, height: 2 });
  using buffer = new Buffer(context, 64 * 16);
  const bytes = new Uint8Array(64 * 16);
  const parts: { origin?: Triple; region?: Triple }[] = [
    { region: [5, 1, 1] },
    { origin: [2, 0, 0], region: [3, 1, 1] },
    { region: [1, 1, 2] },
    { origin: [-1, 0, 0], region: [1, 1, 1] },
    { region: [NaN, 1, 1] },
    { region: [4, 4] as unknown as Triple },
  ];
  for (const part of parts) {
    for (
      const attempt of [
        () => image.read(queue, bytes, part),
        () => image.write(queue, bytes, part),
        () => image.fill(queue, new Float32Array(4), part),
        () => image.copyTo(queue, image, part),
        () => image.copyToBuffer(queue, buffer, part),
        () => image.copyFromBuffer(queue, buffer, part),
      ]
    ) assertThrows(attempt, RangeError);
  }
  assertThrows(() => image.copyTo(queue, small), RangeError, "the destination");
  assertThrows(() => image.read(queue, new Uint8Array(255)), RangeError, "256 bytes");
  const offset = buffer.nbytes - 16;
  assertThrows(() => image.copyToBuffer(queue, buffer, { offset }), RangeError);
  assertThrows(() => image.copyToBuffer(queue, buffer, { offset: -64 }), RangeError);
  const fourBytes = new Uint8Array(4) as unknown as Uint32Array;
  assertThrows(() => image.fill(queue, fourBytes), RangeError, "32 bits");
  queue.finishSync();
});

testOpenCL("three numbers are three numbers: C reads three whatever the array has", () => {
  using buffer = new Buffer(context, 64);
  const pair = [4, 4] as unknown as Triple;
  const out = new Uint8Array(64);
  assertThrows(() => queue.readRect(buffer, out, { region: pair }), RangeError, "three");
  const host = { origin: pair };
  assertThrows(() => queue.readRect(buffer, out, { region: [1, 1, 1], host }), RangeError, "three");
});

testOpenCL("a launch has as many sizes as dimensions", () => {
  using buffer = new Buffer(context, 64);
  using kernel = program.kernel("put");
  kernel.setArgs([buffer, 1]);
  const one = new BigUint64Array([1n]), three = new BigUint64Array([1n, 1n, 1n]);
  const enqueue = [
    queue.enqueueKernel.bind(queue),
    queue.enqueueKernelHeld.bind(queue),
    queue.enqueueKernelEvent.bind(queue),
  ];
  for (const launch of enqueue) {
    assertThrows(() => launch(kernel, 3, one, null), RangeError, "one size a dimension");
    assertThrows(() => launch(kernel, 3, three, one), RangeError, "one size a dimension");
    assertThrows(() => launch(kernel, 0, one, null), RangeError, "one size a dimension");
    assertThrows(() => launch(kernel, 4, three, null), RangeError, "one size a dimension");
  }
  queue.finishSync();
});

testOpenCL("bytes are never taken for a handle, and local memory is for local arguments", () => {
  using built = new Program(
    context,
    "kernel void f(global long* x, local int* l, long n) { x[0] = n + l[0]; }",
  ).build();
  using kernel = built.kernel("f");
  const address = new BigUint64Array([0x1234n]);
  assertThrows(() => kernel.setBytes(0, address), TypeError, "argument 0 of f to bytes");
  assertThrows(() => kernel.setBytes(1, address), TypeError, "declared as local");
  assertThrows(() => kernel.setLocal(0, 8), TypeError, "argument 0 of f to local memory");
  assertThrows(() => kernel.setLocal(2, 8), TypeError, "declared as value");
  kernel.setBytes(2, address);
  kernel.setLocal(1, 4);
});

const views: { [name: string]: (nbytes: number) => ArrayBufferView } = {
  "a DataView with an offset": (n) => new DataView(new ArrayBuffer(n + 24), 24, n),
  "a Float64Array with an offset": (n) => new Float64Array(new ArrayBuffer(n + 16), 16, n / 8),
  "shared memory with an offset": (n) => new Int32Array(new SharedArrayBuffer(n + 4), 4, n / 4),
};

testOpenCL("transfers honour a view's offset and length", async () => {
  using buffer = new Buffer(context, 64);
  for (const [name, make] of Object.entries(views)) {
    for (const options of [{}, { blocking: true }, { noCopy: true }]) {
      const source = make(32), target = make(16);
      const bytesOf = (v: ArrayBufferView) => new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
      bytesOf(source).forEach((_, i, bytes) => bytes[i] = i + 1);
      const all = new Uint8Array(target.buffer).fill(200);
      queue.write(buffer, source, { ...options, offset: 8 }).release();
      await queue.read(buffer, target, { ...options, offset: 16 }).wait();
      const expected = new Uint8Array(all.length).fill(200);
      for (let i = 0; i < 16; i++) expected[target.byteOffset + i] = 9 + i;
      assertEquals(all, expected, `${name} ${JSON.stringify(options)}`);
    }
  }
});

testOpenCL("arrays that are gone or may move are refused by every call that keeps them", () => {
  using buffer = new Buffer(context, 64);
  const gone = new Uint8Array(16);
  gone.buffer.transfer();
  const moving = new Uint8Array(new ArrayBuffer(16, { maxByteLength: 64 }));
  const growing = new Uint8Array(new SharedArrayBuffer(16, { maxByteLength: 64 }));
  const rect = { region: [4, 1, 1] as const };
  for (const view of [gone, moving, growing]) {
    const reason = view === gone ? "transferred" : "resizable";
    for (const move of [() => queue.write(buffer, view), () => queue.read(buffer, view)]) {
      assertThrows(move, TypeError, reason);
    }
    const others = [
      () => queue.write(buffer, view, { noCopy: true }),
      () => queue.fill(buffer, view),
      () => queue.writeRect(buffer, view, rect),
      () => queue.readRect(buffer, view, rect),
      () => new Buffer(context, 16, { data: view }),
    ];
    // A detached array has no bytes: some calls refuse its size before its memory.
    for (const attempt of others) assertThrows(attempt, Error);
  }
});

Deno.test("a recorded fill is checked like an enqueued one", { ignore: !hasCommandBuffers }, () => {
  using buffer = new Buffer(context, 64);
  using commands = new CommandBuffer(queue);
  for (const range of badRanges) {
    assertThrows(() => commands.fill(buffer, new Uint8Array(16), range), RangeError);
  }
  assertThrows(() => commands.fill(buffer, new Uint8Array(3)), RangeError, "3 bytes");
});
