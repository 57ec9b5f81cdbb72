import { assert, assertEquals } from "@std/assert";
import { findCommand, leftOut, missing, type Need, needs } from "./needs.ts";

const need = (name: string, isThere: boolean): Need => ({
  name,
  packages: [`${name}-package`],
  isSmall: true,
  isThere: () => isThere,
});

Deno.test("needs: what is missing is found, each has a package that brings it", async () => {
  const here = need("here", true), gone = need("gone", false);
  assertEquals(await missing([here, gone]), [gone]);
  assert(needs.every(({ packages }) => packages.length > 0));
});

Deno.test("leftOut names how many tests did not run, and what to install for them", () => {
  assertEquals(leftOut(0, 10, []), "No test was left out.");
  assertEquals(
    leftOut(3, 10, [need("a", false), need("b", false)], ""),
    "3 of 10 tests were left out. This machine lacks a, b: apt install a-package b-package (Debian, Ubuntu).",
  );
  assert(leftOut(3, 10, [], "").startsWith("3 of 10 tests were left out: "));
  assert(
    leftOut(3, 10, [], "cpu").includes('with those of "cpu", which NETCL_TESTED names, beside'),
  );
});

Deno.test("findCommand looks through the folders of PATH", () => {
  assertEquals(findCommand("no-such-command", "nor-this"), null);
  if (Deno.build.os !== "windows") assert(findCommand("no-such-command", "sh")!.endsWith("/sh"));
});
