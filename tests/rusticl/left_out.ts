/**
 * Tests left out on Mesa's rusticl with llvmpipe: every test and program, with the fault of the driver
 * that is its reason. `faults.ts` shows each fault without netcl's kernels.
 */
import type { LeftOutTests } from "../suite/left_out/left_out.ts";
import type { FaultName } from "./faults.ts";

/** Tests with their faults. */
export const tests: LeftOutTests<FaultName> = {
  "ffi/memory/buffer_test.ts": {
    "Buffer: one that is too large, and a part that is misaligned, have codes of their own":
      "alignment",
  },
  "ffi/queue/command_queue_test.ts": {
    "CommandQueue: an out-of-order one obeys wait lists, markers, barriers": "order",
    "CommandQueue: finish lets timers run": "loops",
    "CommandQueue: finish waits for all before it, also beside another": "loops",
  },
  "ffi/events/event_test.ts": {
    "Event of a queue without profiling has none, and says what to do": "profiling",
  },
  "ffi/kernels/program_test.ts": {
    "Program: programs are compiled with headers and linked": "linking",
    "Program: a binary builds to the same program": "binary",
  },
  "memory/fences/fences_test.ts": {
    "BufferPool: real queues that share a block spoil no data": "loops",
    "PersistentBufferPool: real queues that share a block spoil no data": "loops",
    "SlabPool: real queues that share a block spoil no data": "loops",
  },
  "backend/transfers_test.ts": {
    "the host runs as many launches ahead as it may, and no more": "loops",
  },
  "backend/opencl/templates/products_test.ts": {
    "a sum of a prime number of terms is computed in one": "loops",
  },
  "backend/opencl/codegen/vector_math_test.ts": {
    "exp is within 3 units of the last place": "subnormals",
    "exp2 is within 3 units of the last place": "subnormals",
    "erfc is within 3 units of the last place": "doubles",
  },
  "tensor/execution/pinned_test.ts": {
    "a batch is copied while a kernel runs, not pinned": "loops",
    "a batch is copied while a kernel runs, pinned": "loops",
  },
  "tensor/ops/precision_test.ts": {
    "a number is compared in the precision of the tensor (cl)": "doubles",
    "float32 is computed in float32, fused or not (cl)": "doubles",
  },
  "conformance/values_test.ts": {
    "creation: the values are PyTorch's, plain inputs (cl)": "doubles",
  },
  "conformance/singular_test.ts": {
    "casts of NaN, infinities and large numbers are the same everywhere (cl)": "doubles",
    "losses of mixed types have PyTorch's types (cl)": "doubles",
  },
  // Their graphs cast to float64, and sum in it what they compare.
  "tensor/graphs_test.ts": {
    "random graphs mean the same (cl)": "doubles",
    "compiled graphs mean in every call what they mean uncompiled (cl)": "doubles",
    "random graphs mean the same with NETCL_EAGER=1 (cl)": "doubles",
  },
  "tensor/io/files_test.ts": {
    "loadSafetensors puts a file of another writer on the device (cl)": "doubles",
    "loadNpy puts NumPy's float64.npy on the device (cl)": "doubles",
  },
};

/** Acceptance programs by their number. */
export const programs: Readonly<Record<string, FaultName>> = {
  // Its kernel should be busy long enough for timers to run meanwhile.
  "01": "loops",
  "02": "loops",
  "08": "loops",
};
