/** A worker that does what it is told with the handles that are shared with it. */
import { attach } from "../../../backend/sharing/attached_handles.ts";
import type { HandleSnapshot } from "../../../backend/sharing/shared_handles.ts";

/** A task for the worker. */
export interface Task {
  readonly what: "add" | "copy" | "fill" | "hold" | "attach";
  readonly snapshot: HandleSnapshot;
  readonly times?: number;
}

const self = globalThis as unknown as {
  onmessage: (event: MessageEvent<Task>) => void;
  postMessage(value: unknown): void;
};

const tasks: Record<Task["what"], (task: Task) => unknown> = {
  add({ snapshot, times = 1 }) {
    const { queue, kernels, buffers } = attach(snapshot);
    const args = [buffers.sum!, new Int32Array([1])];
    for (let i = 0; i < times; i++) queue.run(kernels.add!, { global: [1], local: [1], args });
    queue.finish();
  },
  copy({ snapshot }) {
    const { queue, buffers } = attach(snapshot);
    const bytes = new Uint8Array(buffers.from!.nbytes);
    queue.read(buffers.from!, bytes);
    queue.write(buffers.to!, bytes.subarray(2), 1);
  },
  fill({ snapshot }) {
    const { memory } = attach(snapshot);
    memory.slot!.fill(7);
    return attach(snapshot).deviceName;
  },
  hold({ snapshot }) {
    const { queue, kernels, buffers } = attach(snapshot);
    const args = [buffers.sum!, new Int32Array([1])];
    self.postMessage("holding");
    try {
      for (;;) queue.run(kernels.add!, { global: [1], args });
    } catch (error) {
      if ((error as Error).name !== "DisposedError") throw error;
    }
  },
  attach({ snapshot }) {
    try {
      attach(snapshot);
    } catch (error) {
      return `${(error as Error).name}: ${(error as Error).message}`;
    }
  },
};

self.onmessage = ({ data }) => self.postMessage(tasks[data.what](data) ?? "done");
