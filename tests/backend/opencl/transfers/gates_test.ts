import { assertEquals, assertThrows } from "@std/assert";
import { completedSync, mapPages } from "../../../../backend/communication/mod.ts";
import type { Gate } from "../../../../backend/execution/backend.ts";
import { driverOf } from "../../../../backend/opencl/runtime/driver.ts";
import { gatesOf } from "../../../../backend/opencl/transfers/gates.ts";
import { type TransferOptions, Transfers } from "../../../../backend/opencl/transfers/transfers.ts";
import type { Device } from "../../../../ffi/mod.ts";
import { DeviceMemory, SlabPool } from "../../../../memory/mod.ts";
import { hasOpenCL, openCLDevice, testOpenCL } from "../../../opencl.ts";
import { setVariables } from "../../../variables.ts";

const queue = hasOpenCL ? openCLDevice.queue! : null!;
// The library that maps memory stays open.
mapPages(64)?.[Symbol.dispose]();

function withTransfers<T>(options: TransferOptions, fn: (transfers: Transfers) => T): T {
  const transfers = new Transfers(queue, options);
  try {
    return fn(transfers);
  } finally {
    transfers.dispose();
  }
}

for (const gates of ["events", "kernels"] as const) {
  testOpenCL(`gates by ${gates} hold copies back until the host opens them or signs come`, () => {
    // Kernels that wait on PoCL keep a core, and nothing else of the process may need it.
    withTransfers({ gates, pinned: true }, ({ beside }) => {
      const memory = new DeviceMemory(new SlabPool(queue), { name: "test", queue });
      using pages = mapPages(192)!;
      const { bytes } = pages;
      using pinned = beside.pin(bytes);
      const word = new Uint32Array(bytes.buffer, bytes.byteOffset + 64, 1);
      const landed = (open: (gate: Gate) => void, value: number): number[] => {
        const gate = beside.gate([{ memory: pinned, offset: 64, value }]);
        const { blocks: [block], copy } = beside.upload(memory, [bytes.subarray(0, 4)], gate);
        bytes.fill(value, 0, 4);
        assertEquals(copy.isDone(), false);
        open(gate);
        completedSync("land", copy);
        gate.open();
        const into = new Uint8Array(4);
        queue.read(block!.base, into, { offset: block!.offset, blocking: true }).release();
        copy[Symbol.dispose]();
        block!.release();
        return [...into];
      };
      assertEquals(landed((gate) => gate.open(), 1), [1, 1, 1, 1]);
      if (gates === "kernels") {
        assertEquals(landed(() => word[0] = 2, 2), [2, 2, 2, 2]);
        // The last number comes before the first.
        word[0] = 4095;
        assertEquals(landed(() => word[0] = 0, 0), [0, 0, 0, 0]);
        // A sign behind a copy.
        using block = memory.allocate(4);
        queue.write(block.base, new Uint8Array(4).fill(7), { offset: block.offset }).release();
        const read = beside.read([{ block, bytes: bytes.subarray(0, 4) }], {
          memory: pinned,
          offset: 64,
          value: 3,
        });
        completedSync("read", read);
        assertEquals([...bytes.subarray(0, 4), word[0]], [7, 7, 7, 7, 3]);
        read[Symbol.dispose]();
      }
      memory.destroy();
    });
  });
}

testOpenCL("NETCL_GATES names the form of gates, where copies have queues of their own", () => {
  const hasGates = (options: TransferOptions): boolean =>
    withTransfers(options, ({ beside }) => beside.hasGates);
  assertEquals(hasGates({ gates: null }), false);
  assertEquals(hasGates({ async: false }), false);
  assertEquals(gatesOf("events"), "events");
  {
    using _wrong = setVariables({ NETCL_GATES: "some" });
    assertThrows(() => gatesOf("events"), RangeError, 'NETCL_GATES is "some"');
    using _none = setVariables({ NETCL_GATES: "0" });
    assertEquals(gatesOf("events"), null);
  }
  const named = (name: string): Device =>
    ({ type: "gpu", platform: { name }, extensions: [] }) as unknown as Device;
  // NVIDIA's ends the process with a segmentation fault.
  assertEquals(driverOf(named("NVIDIA CUDA")).gates, "kernels");
  assertEquals(driverOf(named("Portable Computing Language")).gates, "events");
});
