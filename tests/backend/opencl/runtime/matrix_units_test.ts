import { assertEquals, assertThrows } from "@std/assert";
import {
  matrixUnitsOf,
  type UnitFacts,
  unitsByFacts,
} from "../../../../backend/opencl/runtime/matrix_units.ts";
import { EnvironmentError } from "../../../../ffi/host/environment.ts";
import { manager } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { setVariables } from "../../../variables.ts";

const none: UnitFacts = {
  name: "",
  extensions: [],
  computeCapability: 0,
  wavefront: 0,
  subgroup: 0,
};
const products = ["cl_khr_fp16", "cl_intel_subgroup_matrix_multiply_accumulate"];

Deno.test("unitsByFacts: what drivers report of devices that have units, and of those that do not", () => {
  const cases: readonly (readonly [Partial<UnitFacts>, ReturnType<typeof unitsByFacts>])[] = [
    [{ name: "NVIDIA H200", computeCapability: 9 }, "mma"],
    [{ name: "NVIDIA A100-SXM4-80GB", computeCapability: 8 }, "mma"],
    [{ name: "Tesla T4", computeCapability: 7 }, null],
    [{ name: "gfx1100", wavefront: 32 }, "wmma"],
    [{ name: "gfx1151", wavefront: 32 }, "wmma"],
    [{ name: "gfx1100", wavefront: 64 }, null],
    [{ name: "gfx1036", wavefront: 32 }, null],
    [{ name: "gfx1201", wavefront: 32 }, "wmma12"],
    [{ name: "gfx1250", wavefront: 32 }, null],
    [{ name: "gfx90a:sramecc+:xnack-", wavefront: 64 }, "mfma"],
    [{ name: "gfx942:sramecc+:xnack-", wavefront: 64 }, "mfma"],
    // Its bfloat16 instructions are others.
    [{ name: "gfx908:sramecc+:xnack-", wavefront: 64 }, null],
    [{ name: "gfx906", wavefront: 64 }, null],
    [{ name: "Intel(R) Arc(TM) A770 Graphics", subgroup: 8, extensions: products }, "dpas8"],
    [{ name: "Intel(R) Arc(TM) B580 Graphics", subgroup: 16, extensions: products }, "dpas16"],
    [{ name: "Intel(R) UHD Graphics 770", subgroup: 8, extensions: ["cl_khr_fp16"] }, null],
    [{ name: "cpu-haswell" }, null],
  ];
  for (const [facts, units] of cases) {
    assertEquals(unitsByFacts({ ...none, ...facts }), units, JSON.stringify(facts));
  }
});

testOpenCL("matrixUnitsOf uses none where NETCL_MATRIX_UNITS is 0, and takes no other word", () => {
  const device = manager.default("cl").clDevice!;
  using _none = setVariables({ NETCL_MATRIX_UNITS: "0" });
  assertEquals(matrixUnitsOf(device), null);
  using _other = setVariables({ NETCL_MATRIX_UNITS: "off" });
  assertThrows(() => matrixUnitsOf(device), EnvironmentError, "write 0 or 1");
});
