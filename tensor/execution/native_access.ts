/** A tensor's memory for users who enqueue commands themselves. */
import { finalizer, formatShape } from "../../backend/internal.ts";
import type { BufferHandle, Storage } from "../../memory/mod.ts";
import { giveUpReplay } from "../core/calls.ts";
import type { Tensor } from "../core/mod.ts";
import { nodeOf, stateOf } from "../core/internals.ts";

/** Lets go of memory that was exported by tensors which nobody can reach any more. */
const forgotten = finalizer<Storage>(
  "memory of a forgotten tensor",
  (storage) => storage.release(),
);

/** An exported value: it stays where it is in memory until the tensor is disposed of. */
class ExportedValue {
  constructor(readonly storage: Storage) {
    storage.retain();
    forgotten.register(this, storage, this);
  }

  end(): void {
    forgotten.unregister(this);
    this.storage.release();
  }
}

/** The block of a tensor's value, computed and in place before what is enqueued next. */
export function exportBlock(what: string, tensor: Tensor): BufferHandle {
  if (tensor.backend !== "cl") {
    throw new TypeError(
      `Cannot take the ${what} of a tensor of shape ${formatShape(tensor.shape)} on ` +
        `${tensor.device}: it is in the host's memory; move it with to("cl")`,
    );
  }
  giveUpReplay(`it takes the ${what} of a tensor`);
  const storage = nodeOf(tensor.realize()).storage!, state = stateOf(tensor);
  if (state.exported?.storage !== storage) {
    state.exported?.end();
    state.exported = new ExportedValue(storage);
  }
  // Copies to the device run beside the kernels: what the caller enqueues waits for them.
  storage.memory.uploads.await(storage.handle);
  return storage.handle as BufferHandle;
}
