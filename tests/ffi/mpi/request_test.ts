import { assert, assertEquals } from "@std/assert";
import { type MPILibrary, Request } from "../../../ffi/mpi/mod.ts";

/** The number of calls of a library by a question for what is never done. */
function testsOfQuestion(memory: Uint8Array | null): number {
  let count = 0;
  const library = {
    implementation: { ignoreStatus: 0n },
    mpi: { MPI_Test: () => (count++, 0) },
  } as unknown as MPILibrary;
  const request = new Request(library, "MPI_Iallreduce", new Int32Array(1), memory);
  assertEquals(request.isDone(), false);
  return count;
}

Deno.test("MPI works on much data whenever it is asked, and who waits for little does not keep a core busy", () => {
  // On a busy machine a question may lose its core, and its time with it.
  const counts = Array.from({ length: 50 }, () => testsOfQuestion(new Uint8Array(2 ** 20)));
  assert(Math.max(...counts) > 10, `one test moves a few messages: ${counts}`);
  assertEquals([null, new Uint8Array(8), new Uint8Array(32 * 1024)].map(testsOfQuestion), [
    1,
    1,
    1,
  ]);
});
