import { assert, assertEquals } from "@std/assert";
import { linalg, realizeAll, Tensor } from "../../../tensor/mod.ts";
import { paperGPU, withPaperDevice } from "../../backend/paper_device.ts";
import { testOpenCL } from "../../opencl.ts";

testOpenCL(
  "callDeviceKernel() asks for the smallest sub-groups of a device whose units are theirs",
  () => {
    const headsOn = (matrixUnits: "dpas8" | "dpas16" | "wmma"): string[] => {
      const heads: string[] = [];
      withPaperDevice(paperGPU({ matrixUnits }), () => {}, () => {
        const a = Tensor.fromHost(new Float32Array(64 * 64), { shape: [64, 64] });
        const { q, r } = linalg.qr(a);
        realizeAll([...Object.values(linalg.lu(a)), q, r]);
      }, {
        custom: ({ kernel: { source } }) => heads.push(/^kernel .*/m.exec(source)![0]),
      });
      assert(heads.length >= 2);
      return heads;
    };
    const size = (head: string) => /intel_reqd_sub_group_size\((\d+)\)/.exec(head)?.[1];
    assertEquals(new Set(headsOn("dpas16").map(size)), new Set(["16"]));
    assertEquals(new Set(headsOn("dpas8").map(size)), new Set(["8"]));
    assertEquals(new Set(headsOn("wmma").map(size)), new Set([undefined]));
  },
);
