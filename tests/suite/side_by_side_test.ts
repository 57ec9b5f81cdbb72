/** Places of the suite's jobs. */
import { assertEquals } from "@std/assert";
import type { Job, Place } from "./jobs.ts";
import { runJobs } from "./side_by_side.ts";

/** A job that says that it is there, and fails where the other one is not there within 20 s. */
function job(place: Place, folder: string, own: string, other: string): Job {
  const script = `Deno.writeTextFileSync("${folder}/${own}", "");
    const end = Date.now() + 20_000, isThere = () => [...Deno.readDirSync("${folder}")]
      .some(({ name }) => name === "${other}");
    while (!isThere()) {
      if (Date.now() > end) Deno.exit(1);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }`;
  return { name: own, args: ["eval", script], files: [], place, env: {} };
}

Deno.test("what mostly waits runs beside what computes, one after the other", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const ended: [string, boolean][] = [];
    const jobs = [
      job("among others", folder, "computes", "waits"),
      job("waiting lane", folder, "waits", "computes"),
      job("waiting lane", folder, "last", "waits"),
    ];
    await runJobs(jobs, 1, {}, ({ job, success }) => ended.push([job.name, success]));
    assertEquals(ended.toSorted(), [["computes", true], ["last", true], ["waits", true]]);
    const order = ended.map(([name]) => name).filter((name) => name !== "computes");
    assertEquals(order, ["waits", "last"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
