// Suite: waits, optimized kernels; takes much memory, and computes for longer than the optimizer takes.
/**
 * Tensors beyond 2^31 elements, where memory allows; what needs minutes or more memory runs with
 * NETCL_LARGE=all only.
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { backendOf } from "../../../backend/internal.ts";
import { type BackendName, device, manager, Tensor } from "../../../mod.ts";
import { ignoreOn, testOnBackends, testOnCPU } from "../../opencl.ts";

const GiB = 2 ** 30;
const N = 2 ** 31 + 16;
const everything = Deno.env.get("NETCL_LARGE") === "all";

/** Bytes of the largest memory object that the device makes and the limit allows. */
function largestBuffer(backend: BackendName): number {
  if (ignoreOn(backend)) return 0;
  const handle = manager.default(backend);
  const largest = handle.clDevice?.query("MAX_MEM_ALLOC_SIZE") ?? Infinity;
  return Math.min(largest, backendOf(handle).memory.stats.limitBytes);
}

function testLarge(
  name: string,
  backend: BackendName,
  largestBytes: number,
  neededBytes: number,
  fn: () => Promise<void>,
): void {
  const hasRoom = Deno.systemMemoryInfo().available >= 2 * neededBytes &&
    largestBuffer(backend) >= largestBytes;
  Deno.test(`${name} (${backend})`, { ignore: ignoreOn(backend) || !hasRoom }, fn);
}

async function listOf(x: Tensor): Promise<number[]> {
  return [...await x.toHost()].map(Number);
}

testLarge("2^31 + 16 bytes are filled, read, summed and searched", "cl", N, 2.2 * GiB, async () => {
  using _ = device("cl");
  using x = Tensor.concat([
    Tensor.zeros([N - 4], { dtype: "uint8" }),
    Tensor.fromHost(new Uint8Array([7, 8, 9, 5])),
  ], 0).realize();
  assertEquals(await listOf(x.slice([N - 5, N])), [0, 7, 8, 9, 5]);
  assertEquals(await listOf(x.flip(0).slice([0, 5])), [5, 9, 8, 7, 0]);
  assertEquals(await x.sum().item(), 29);
  const index = Tensor.fromHost(BigInt64Array.of(BigInt(N - 1), BigInt(N - 4), 0n));
  assertEquals(await listOf(x.gather(0, index)), [5, 7, 0]);
  // What lies behind the tensor in its memory object begins beyond 2^31 elements.
  assertEquals(await listOf(Tensor.arange(5).mul(2)), [0, 2, 4, 6, 8]);
});

for (const backend of ["cpu", "cl"] as const) {
  if (!everything) continue;
  testLarge("2^31 + 16 bytes: maxima, positions, copies", backend, N, 4.4 * GiB, async () => {
    using _ = device(backend);
    const host = new Uint8Array(N);
    host.set([7, 8, 9, 5], N - 4);
    using x = Tensor.fromHost(host);
    assertEquals(await listOf(x.argmax(0)), [N - 2]);
    assertEquals(await listOf(x.max()), [9]);
    assertEquals((await x.toHost()).subarray(N - 5), new Uint8Array([0, 7, 8, 9, 5]));
  });
  testLarge("2^32 + 16 bytes come from the host", backend, 2 * N, 8.8 * GiB, async () => {
    using _ = device(backend);
    const n = 2 ** 32 + 16, host = new Uint8Array(n);
    host.set([7, 8, 9, 5], n - 4);
    using x = Tensor.fromHost(host).realize();
    assertEquals(await listOf(x.slice([n - 5, n])), [0, 7, 8, 9, 5]);
  });
}

testOnCPU("loops beyond 2^31 are JavaScript's, which counts in doubles", () => {
  const text = (n: number) => Tensor.full([n], 1, { dtype: "int32" }).max().explain();
  assert(text(2 ** 20).includes("// WebAssembly"));
  for (const n of [N, 2 ** 32 + 16]) assert(!text(n).includes("// WebAssembly"), text(n));
});

testOnBackends("a read or a value that no memory holds says what is too large", () => {
  for (const shape of [[2 ** 52], [2 ** 30, 2 ** 30]]) {
    const x = Tensor.ones(shape).mul(2);
    const { message } = assertThrows(() => x.toHostSync(), RangeError, "read it in slices");
    assertStringIncludes(message, `[${shape.join(", ")}]`);
  }
  const x = Tensor.fromHost([1]).realize().reshape([1, 1]).expand([2 ** 27, 2 ** 26]);
  const { message } = assertThrows(() => x.sin().contiguous().realize(), RangeError);
  assertStringIncludes(message, `${2 ** 55} bytes`);
  assertStringIncludes(message, "check the shape");
});
