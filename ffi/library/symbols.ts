/**
 * Every core function of OpenCL 1.0 to 3.0, as cl.h declares them: the C parameter stands beside
 * each type. `since` names the version that brought a function; libraries may lack those. Callback
 * parameters are plain addresses and always 0: a JavaScript callback on a driver's thread deadlocks
 * PoCL when the main thread waits.
 *
 * @module
 */
import { commandFunctions } from "../symbols/commands.ts";
import {
  commandQueueFunctions,
  contextFunctions,
  deviceFunctions,
  extensionFunctions,
  memoryObjectFunctions,
  platformFunctions,
  samplerFunctions,
  sharedVirtualMemoryFunctions,
} from "../symbols/objects.ts";
import {
  completionFunctions,
  eventFunctions,
  kernelFunctions,
  profilingFunctions,
  programFunctions,
} from "../symbols/programs.ts";
import type { Calls } from "../symbols/types.ts";

/** Twins of functions that wait, for use off the main thread. */
export const waitingFunctions = {
  clFinishAsync: { ...completionFunctions.clFinish, name: "clFinish", nonblocking: true },
  clWaitForEventsAsync: {
    ...eventFunctions.clWaitForEvents,
    name: "clWaitForEvents",
    nonblocking: true,
  },
  clBuildProgramAsync: {
    ...programFunctions.clBuildProgram,
    name: "clBuildProgram",
    nonblocking: true,
  },
} as const;

/** The whole table, in the order of cl.h. */
export type OpenCLFunctions =
  & typeof platformFunctions
  & typeof deviceFunctions
  & typeof contextFunctions
  & typeof commandQueueFunctions
  & typeof memoryObjectFunctions
  & typeof sharedVirtualMemoryFunctions
  & typeof samplerFunctions
  & typeof programFunctions
  & typeof kernelFunctions
  & typeof eventFunctions
  & typeof profilingFunctions
  & typeof completionFunctions
  & typeof commandFunctions
  & typeof extensionFunctions
  & typeof waitingFunctions;

/** The whole table, in the order of cl.h. */
export const functions: OpenCLFunctions = {
  ...platformFunctions,
  ...deviceFunctions,
  ...contextFunctions,
  ...commandQueueFunctions,
  ...memoryObjectFunctions,
  ...sharedVirtualMemoryFunctions,
  ...samplerFunctions,
  ...programFunctions,
  ...kernelFunctions,
  ...eventFunctions,
  ...profilingFunctions,
  ...completionFunctions,
  ...commandFunctions,
  ...extensionFunctions,
  ...waitingFunctions,
};

/** A function of the table, by its C name. */
export type FunctionName = keyof OpenCLFunctions;

/** The functions of the table as TypeScript calls. */
export type OpenCLSymbols = Calls<OpenCLFunctions>;
