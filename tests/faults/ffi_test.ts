/**
 * The fault matrix of ffi/: each C function that it calls is made to fail, at each of its calls
 * within a scenario. The error must name code and call, nothing may be left behind, and the
 * scenario must succeed afterwards.
 * The file is long because it is one list of scenarios, and what runs them.
 */
import { assert, assertEquals, assertInstanceOf } from "@std/assert";
import {
  Buffer,
  CommandBuffer,
  CommandQueue,
  Context,
  type Fault,
  type FaultyFunction,
  Image,
  OpenCLError,
  OpenCLUnavailableError,
  platforms,
  Program,
  Sampler,
  SvmBuffer,
  UserEvent,
  withFaults,
} from "../../ffi/mod.ts";
import { awaitDeferred } from "../../ffi/events/context_work.ts";
import { context, device, hasOpenCL, leftBehind, program, queue } from "../ffi/fixture.ts";

const hasCommandBuffers = hasOpenCL && device.extensions.includes("cl_khr_command_buffer");

type Scenario = () => unknown | Promise<unknown>;

const source = "kernel void f(global int* y) { y[0] = 1; }";
const format = { order: "RGBA", type: "UNSIGNED_INT8" } as const;
const pixel = new Uint8Array(4);
const svm = hasOpenCL && SvmBuffer.isAvailable(device);

/** A command whose event is given back. */
function command(fn: (buffer: Buffer) => Disposable): Scenario {
  return () => {
    using buffer = new Buffer(context, 64);
    using _event = fn(buffer);
  };
}

function imageCommand(fn: (image: Image, buffer: Buffer) => Disposable): Scenario {
  return () => {
    using image = new Image(context, { format, width: 1 });
    using buffer = new Buffer(context, 64);
    using _event = fn(image, buffer);
  };
}

function svmCommand(fn: (memory: SvmBuffer) => Disposable): Scenario {
  return () => {
    using memory = new SvmBuffer(context, 64);
    using _event = fn(memory);
    queue.finishSync();
  };
}

const launch = () => {
  using buffer = new Buffer(context, 64);
  using kernel = program.kernel("put");
  using _event = queue.run(kernel, { global: [1], args: [buffer, 1] });
};

const scenarios: { readonly [name in FaultyFunction]?: Scenario } = {
  clGetPlatformIDs: () => platforms(),
  clGetPlatformInfo: () => device.platform.name,
  clUnloadPlatformCompiler: () => device.platform.unloadCompiler(),
  clGetDeviceIDs: () => device.platform.devices(),
  clGetDeviceInfo: () => device.name,
  clCreateContext: () => new Context(device).release(),
  clReleaseContext: () => new Context(device).release(),
  clGetContextInfo: () => context.referenceCount,
  clCreateCommandQueue: () => new CommandQueue(context).release(),
  clReleaseCommandQueue: () => new CommandQueue(context).release(),
  clRetainCommandQueue: () => queue.finish(),
  clCreateBuffer: () => new Buffer(context, 64).release(),
  clReleaseMemObject: () => new Buffer(context, 64).release(),
  clGetMemObjectInfo: () => {
    using buffer = new Buffer(context, 64);
    return buffer.flags;
  },
  clCreateSubBuffer: () => {
    using buffer = new Buffer(context, 64);
    using _part = buffer.subBuffer(0, 32);
  },
  clEnqueueReadBuffer: command((buffer) => queue.read(buffer, new Uint8Array(64))),
  clEnqueueWriteBuffer: command((buffer) => queue.write(buffer, new Uint8Array(64))),
  clEnqueueReadBufferRect: command((buffer) =>
    queue.readRect(buffer, new Uint8Array(64), { region: [8, 8, 1] })
  ),
  clEnqueueWriteBufferRect: command((buffer) =>
    queue.writeRect(buffer, new Uint8Array(64), { region: [8, 8, 1] })
  ),
  clEnqueueCopyBuffer: command((buffer) =>
    queue.copy(buffer, buffer, { destinationOffset: 32, nbytes: 32 })
  ),
  clEnqueueCopyBufferRect: command((buffer) => {
    const destination = { origin: [0, 4, 0] } as const;
    return queue.copyRect(buffer, buffer, { region: [8, 4, 1], destination });
  }),
  clEnqueueFillBuffer: command((buffer) => queue.fill(buffer, pixel)),
  clEnqueueMapBuffer: command((buffer) => queue.map(buffer)),
  clEnqueueUnmapMemObject: command((buffer) => queue.map(buffer)),
  clRetainMemObject: command((buffer) => queue.map(buffer)),
  clEnqueueMigrateMemObjects: command((buffer) => queue.migrate([buffer])),
  clEnqueueNDRangeKernel: launch,
  clSetKernelArg: launch,
  clCreateKernel: launch,
  clReleaseKernel: launch,
  clGetKernelInfo: launch,
  clReleaseEvent: launch,
  clGetKernelArgInfo: () => {
    using kernel = program.kernel("put");
    kernel.setNumber(1, 5);
  },
  clGetKernelWorkGroupInfo: () => {
    using kernel = program.kernel("put");
    return kernel.workGroupSize();
  },
  clEnqueueMarkerWithWaitList: command(() => queue.marker()),
  clEnqueueBarrierWithWaitList: command(() => queue.barrier()),
  clFlush: () => queue.flush(),
  clFinish: async () => {
    queue.finishSync();
    await queue.finish();
  },
  clRetainEvent: async () => {
    using buffer = new Buffer(context, 64);
    using event = queue.write(buffer, new Uint8Array(64));
    await event.wait();
  },
  clGetEventInfo: async () => {
    using buffer = new Buffer(context, 64);
    using event = queue.read(buffer, new Uint8Array(64));
    await event.wait();
  },
  clWaitForEvents: async () => {
    using marker = queue.marker();
    marker.waitSync();
    await marker.wait();
  },
  clGetEventProfilingInfo: async () => {
    using profiled = new CommandQueue(context, device, { profiling: true });
    using marker = profiled.marker();
    await marker.wait();
    return marker.profile;
  },
  clCreateUserEvent: () => new UserEvent(context).release(),
  clSetUserEventStatus: () => {
    using event = new UserEvent(context);
    event.complete();
  },
  clCreateProgramWithSource: () => new Program(context, source).release(),
  clReleaseProgram: () => new Program(context, source).release(),
  clBuildProgram: async () => {
    using program = new Program(context, source);
    program.build();
    using other = new Program(context, source);
    await other.buildAsync();
  },
  clRetainProgram: async () => {
    using program = new Program(context, source);
    await program.buildAsync();
  },
  clGetProgramBuildInfo: () => {
    using program = new Program(context, source).build();
    return program.log(device);
  },
  clGetProgramInfo: () => {
    using program = new Program(context, source).build();
    return [program.kernelNames, program.binary(device)];
  },
  clCreateProgramWithBinary: () => {
    using program = new Program(context, source).build();
    using _copy = Program.fromBinary(context, device, program.binary(device));
  },
  clCompileProgram: () => {
    using program = new Program(context, source);
    program.compile();
  },
  clLinkProgram: () => {
    using program = new Program(context, source);
    program.compile();
    using _linked = Program.link(context, [program]);
  },
  clCreateKernelsInProgram: () => {
    for (const kernel of program.kernels()) kernel.release();
  },
};

const subDeviceScenarios: typeof scenarios = {
  clCreateSubDevices: () => {
    for (const part of device.partition({ equally: 1 })) part.release();
  },
  clReleaseDevice: () => {
    for (const part of device.partition({ counts: [1] })) part.release();
  },
};

const clonedScenarios: typeof scenarios = {
  clCloneKernel: () => {
    using kernel = program.kernel("put");
    using _copy = kernel.clone();
  },
};

const imageScenarios: typeof scenarios = {
  clCreateImage: () => new Image(context, { format, width: 1 }).release(),
  clGetImageInfo: () => new Image(context, { format, width: 1 }).release(),
  clGetSupportedImageFormats: () => Image.formats(context, "2d"),
  clCreateSampler: () => new Sampler(context).release(),
  clReleaseSampler: () => new Sampler(context).release(),
  clEnqueueReadImage: imageCommand((image) => image.read(queue, new Uint8Array(4))),
  clEnqueueWriteImage: imageCommand((image) => image.write(queue, pixel)),
  clEnqueueFillImage: imageCommand((image) => image.fill(queue, new Uint32Array(4))),
  clEnqueueCopyImage: () => {
    using a = new Image(context, { format, width: 1 });
    using b = new Image(context, { format, width: 1 });
    using _event = a.copyTo(queue, b);
  },
  clEnqueueCopyImageToBuffer: imageCommand((image, buffer) => image.copyToBuffer(queue, buffer)),
  clEnqueueCopyBufferToImage: imageCommand((image, buffer) => image.copyFromBuffer(queue, buffer)),
};

const svmScenarios: typeof scenarios = {
  clSVMAlloc: () => {
    // Where memory is still to be freed, a failure is waited out and tried again.
    awaitDeferred(context.unsafeHandle);
    new SvmBuffer(context, 64).release();
    awaitDeferred(context.unsafeHandle);
  },
  clRetainContext: () => new SvmBuffer(context, 64).release(),
  clEnqueueSVMMap: svmCommand((memory) => memory.map(queue)),
  clEnqueueSVMUnmap: svmCommand((memory) => {
    memory.map(queue).release();
    return memory.unmap(queue);
  }),
  clEnqueueSVMMemFill: svmCommand((memory) => memory.fill(queue, pixel)),
  clEnqueueSVMMemcpy: () => {
    using a = new SvmBuffer(context, 64), b = new SvmBuffer(context, 64);
    using _event = a.copyTo(queue, b);
    queue.finishSync();
  },
  clSetKernelArgSVMPointer: () => {
    using memory = new SvmBuffer(context, 64);
    using kernel = program.kernel("put");
    kernel.setSvm(0, memory);
  },
};

const recording = () => {
  using x = new Buffer(context, 64), y = new Buffer(context, 64);
  using kernel = program.kernel("put");
  using commands = new CommandBuffer(queue);
  commands.fill(x, pixel);
  commands.run(kernel, { global: [16], args: [x, 1] });
  commands.barrier();
  commands.copy(x, y);
  commands.finalize();
  assertEquals(commands.state, "executable");
  using event = commands.enqueue();
  event.waitSync();
};

const commandBufferCalls = [
  "clCreateCommandBufferKHR",
  "clReleaseCommandBufferKHR",
  "clFinalizeCommandBufferKHR",
  "clEnqueueCommandBufferKHR",
  "clGetCommandBufferInfoKHR",
  "clCommandBarrierWithWaitListKHR",
  "clCommandCopyBufferKHR",
  "clCommandFillBufferKHR",
  "clCommandNDRangeKernelKHR",
] as const;

/** Runs a scenario with its n-th call failing; false if there is no n-th call. */
async function failsAt(call: Fault["call"], nth: number, scenario: Scenario): Promise<boolean> {
  const code = -5;
  let error: unknown;
  try {
    await withFaults([{ call, nth, status: code }], async () => {
      try {
        await scenario();
      } catch (caught) {
        error = caught;
      }
    });
  } catch (missed) {
    assert(String(missed).includes(`the fault in ${call} never happened`), String(missed));
    return false;
  }
  assertInstanceOf(error, OpenCLError, `${call}, call ${nth}: ${error}`);
  assertEquals(error.call, call);
  // clSVMAlloc returns no status: the code is the binding's own.
  assertEquals(error.code, call === "clSVMAlloc" ? -4 : code);
  return true;
}

function matrix(title: string, table: Record<string, Scenario>, ignore: boolean): void {
  for (const [call, scenario] of Object.entries(table) as [Fault["call"], Scenario][]) {
    Deno.test(`${title}: ${call} fails`, { ignore }, async () => {
      let nth = 1;
      const attempt = async () => assertEquals(await leftBehind(scenario), {}, "without a fault");
      await attempt();
      for (let happened = true; happened; nth++) {
        const left = await leftBehind(async () => {
          happened = await failsAt(call, nth, scenario);
        });
        assertEquals(left, {}, `what call ${nth} of ${call} left behind`);
        await attempt();
      }
      assert(nth > 2, `${call} is called`);
    });
  }
}

const groups = [
  ["core", scenarios, !hasOpenCL],
  ["sub-devices", subDeviceScenarios, !hasOpenCL || device.query("PARTITION_MAX_SUB_DEVICES") < 2],
  ["OpenCL 2.1", clonedScenarios, !hasOpenCL || device.versionNumbers[0] < 3],
  ["images", imageScenarios, !hasOpenCL || !device.query("IMAGE_SUPPORT")],
  ["shared memory", svmScenarios, !svm],
] as const;

for (const [title, table, ignore] of groups) matrix(title, table, ignore);
matrix(
  "command buffers",
  Object.fromEntries(commandBufferCalls.map((call) => [call, recording])),
  !hasCommandBuffers,
);

/** Called, but not to be made to fail with an error of its own. */
const exempt: { readonly [name: string]: string } = {
  clSVMFree: "returns nothing",
  clCreateProgramWithIL:
    "needs a device that takes SPIR-V; checked as the other program makers are",
  clCreateProgramWithBuiltInKernels: "needs a device with built-in kernels",
  clSetProgramSpecializationConstant: "needs SPIR-V",
  clGetExtensionFunctionAddressForPlatform: "fails with a null address, see below",
};

/** The texts of all files below a folder. */
function* texts(folder: URL): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(folder)) {
    if (isDirectory) yield* texts(new URL(`${name}/`, folder));
    else yield Deno.readTextFileSync(new URL(name, folder));
  }
}

Deno.test("the fault matrix has every function that ffi/ calls", () => {
  const called = [...texts(new URL("../../ffi/", import.meta.url))].flatMap((text) =>
    [...text.matchAll(/\bcl\.(cl[A-Z]\w+)/g)].map(([, call]) => call!.replace(/Async$/, ""))
  );
  const covered = Object.assign({}, exempt, ...groups.map(([, table]) => table)) as object;
  assertEquals([...new Set(called)].filter((call) => !(call in covered)), []);
  assertEquals(Object.keys(covered).filter((call) => !called.includes(call)), []);
});

Deno.test("extensions: clGetExtensionFunctionAddressForPlatform finds nothing", {
  ignore: !hasCommandBuffers,
}, async () => {
  const call = "clGetExtensionFunctionAddressForPlatform";
  const left = await leftBehind(() => {
    withFaults([{ call, nth: 1, status: 0 }], () => {
      try {
        new CommandBuffer(queue).release();
      } catch (error) {
        assertInstanceOf(error, OpenCLUnavailableError);
        assert(error.message.includes("clCreateCommandBufferKHR"), error.message);
        return;
      }
      throw new Error("a command buffer was made without its functions");
    });
    new CommandBuffer(queue).release();
  });
  assertEquals(left, {});
});

Deno.test(
  "a source that cannot be held is read before the call returns",
  { ignore: !hasOpenCL },
  async () => {
    using buffer = new Buffer(context, 4);
    withFaults([{ call: "clRetainEvent", nth: 1, status: -6 }], () => {
      const write = () => queue.write(buffer, new Int32Array([3]));
      try {
        write();
      } catch (error) {
        assertInstanceOf(error, OpenCLError);
        return;
      }
      throw new Error("the fault had no effect");
    });
    const out = new Int32Array(1);
    await queue.read(buffer, out).wait();
    assertEquals(out[0], 3);
  },
);
