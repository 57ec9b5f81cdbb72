import { assert, assertEquals } from "@std/assert";
import { CPUBackend } from "../../../../backend/cpu/cpu_backend.ts";
import type { Strategy } from "../../../../backend/cpu/strategy/strategy.ts";
import {
  makeWasmMemory,
  WasmBuffer,
  WasmMemory,
  WasmSource,
} from "../../../../backend/cpu/wasm/memory.ts";
import { controlBytes, fields, takePart } from "../../../../backend/cpu/wasm/thread_pool.ts";
import { WasmRuntime } from "../../../../backend/cpu/wasm/runtime.ts";
import { DeviceHandle } from "../../../../backend/devices/device_handle.ts";
import { Tensor, withDevice } from "../../../../mod.ts";
import { compute, wasmBackend } from "../strategies.ts";

function backendWith(threads: number): CPUBackend {
  const wasm = new WasmRuntime(makeWasmMemory()!, threads);
  const strategy: Strategy = { name: "threads", isReference: false, gemm: null, wasm };
  return new CPUBackend(DeviceHandle.forHost("cpu"), strategy);
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!condition()) {
    assert(performance.now() < deadline, "nothing happened for a minute");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const n = 150;

/** Made where it is computed: nothing comes from another memory. */
function product(): Tensor {
  const numbers = (factor: number, modulus: number): Tensor => {
    const whole = Tensor.arange(0, n * n, 1, { dtype: "float32" }).mul(factor);
    return whole.sub(whole.div(modulus).floor().mul(modulus)).sub(2).reshape([n, n]);
  };
  return numbers(5, 7).matmul(numbers(3, 5)).relu().mul(0.5).sum(1).add(1);
}

Deno.test("ThreadPool: workers start by themselves, compute the same, end and start again", async () => {
  const backend = backendWith(3), { threads } = backend.strategy.wasm!;
  const result = (on: CPUBackend) =>
    withDevice("cpu", () => {
      using t = product();
      return compute(on, t);
    });
  const wanted = result(wasmBackend);
  for (let round = 0; round < 2; round++) {
    assertEquals(threads.workers, 0);
    await until(() => {
      assertEquals(result(backend), wanted);
      return threads.workers === 2;
    });
    for (let k = 0; k < 50; k++) assertEquals(result(backend), wanted);
    threads.stop();
    await until(() => {
      const block = new Int32Array(backend.strategy.wasm!.memory.memory.buffer, 0, 8);
      return Atomics.load(block, 7) === 0;
    });
  }
  backend.dispose();
});

Deno.test("ThreadPool: a thread takes its own parts first, then those of others, each once", () => {
  const threads = 3, parts = 8;
  const block = new Int32Array(controlBytes(threads) / 4);
  block[fields.threads] = threads;
  block[fields.parts] = parts;
  // Shares of 2, 3 and 3 parts.
  [2, 3, 3].forEach((own, k) => block[fields.left + fields.leftStep * k] = own);
  const take = (thread: number): number => takePart(block, fields, thread);
  assertEquals([take(1), take(1)], [4, 3]);
  assertEquals([take(0), take(0), take(0)], [1, 0, 2]);
  assertEquals([take(1), take(2), take(0), take(2)], [7, 6, 5, -1]);
});

Deno.test("ThreadPool: WasmMemory joins what is given back, and gives it out again", () => {
  const memory = new WasmMemory(new WebAssembly.Memory({ initial: 1, maximum: 4, shared: true }));
  const pages = [0, 1, 2].map(() => memory.tryAllocate(65536)!);
  assertEquals(pages, [0, 65536, 131072]);
  assertEquals(memory.tryAllocate(1), null, "the last page is never given out");
  memory.deallocate(pages[0]!, 65536);
  memory.deallocate(pages[2]!, 65536);
  assertEquals(memory.tryAllocate(131072), null);
  memory.deallocate(pages[1]!, 65536);
  assertEquals(memory.tryAllocate(131073), 0);
});

Deno.test("ThreadPool: views stay valid while the memory grows", () => {
  const memory = makeWasmMemory()!;
  const bytes = memory.bytes(memory.tryAllocate(100)!, 100).fill(7);
  const before = memory.memory.buffer.byteLength;
  memory.tryAllocate(2 ** 25);
  assert(memory.memory.buffer.byteLength > before, "it grew");
  assertEquals([bytes.length, bytes[99]], [100, 7]);
});

Deno.test("ThreadPool: room for many small pieces comes from few growths: each visits every kernel", () => {
  const memory = makeWasmMemory()!, sizes = new Set<number>(), places = new Set<number>();
  for (let i = 0; i < 200; i++) {
    places.add(memory.tryAllocate(65536)!);
    sizes.add(memory.memory.buffer.byteLength);
  }
  assertEquals([sizes.size, places.size], [1, 200]);
});

Deno.test("ThreadPool: when the memory is full, blocks are plain ArrayBuffers", () => {
  const source = new WasmSource(
    new WasmMemory(new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true })),
  );
  const inside = source.create(1000), outside = source.create(1000);
  assert(inside instanceof WasmBuffer && !(outside instanceof WasmBuffer));
  assertEquals(outside.bytes.byteLength, 1000);
  source.destroy(inside);
  assert(source.create(500) instanceof WasmBuffer);
});

Deno.test("ThreadPool: kernels on blocks outside the memory run in JavaScript", () => {
  // Of two pages none is left for code, which workers would need.
  for (const maximum of [2, 3]) {
    const memory = new WasmMemory(new WebAssembly.Memory({ initial: 1, maximum, shared: true }));
    const strategy: Strategy = {
      name: "small",
      isReference: false,
      gemm: null,
      wasm: new WasmRuntime(memory, 1),
    };
    const backend = new CPUBackend(DeviceHandle.forHost("cpu"), strategy);
    withDevice("cpu", () => {
      using t = product(), same = product();
      assertEquals(compute(backend, t), compute(wasmBackend, same));
    });
    backend.dispose();
  }
});
