// Suite: alone; signals are configured for the whole process.
import { configureSignals } from "../../backend/mod.ts";
import { hasOpenCL } from "../opencl.ts";
import { testSnippets } from "./snippets.ts";

// Examples turn them off; the next one is a program of its own.
Deno.test.afterEach(() => configureSignals({ enabled: true }));
await testSnippets(["ffi", "memory", "backend"], !hasOpenCL);
