/** Groups that are added to an optimizer while it learns. */
import { assertEquals, assertThrows } from "@std/assert";
import { compile, optim, Tensor, withDevice } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

testOnBackends(
  "an added group learns as one that was there from the beginning",
  async (backend) => {
    await withDevice(backend, async () => {
      const leaf = () => Tensor.fromHost([1, -2], { requiresGrad: true });
      const run = async (isCompiled: boolean): Promise<unknown[]> => {
        const [a, b] = [leaf(), leaf()];
        const adam = new optim.Adam([a], { lr: 0.1, beta1: 0.8 });
        const schedule = new optim.ExponentialLR(adam, { gamma: 0.5 });
        const plain = (): void => {
          adam.zeroGrad();
          a.square().sum().add(b.square().sum()).backward();
          adam.step();
        };
        const step = isCompiled ? compile(plain) : plain;
        step(), step();
        adam.addParamGroup({ parameters: [b], lr: 0.2 });
        schedule.step();
        assertEquals(adam.groups.map(({ lr }) => lr), [0.05, 0.2]);
        assertEquals(adam.groups[1]!.options.beta1, 0.8);
        step(), step();
        const alone = leaf(), single = new optim.Adam([alone], { lr: 0.2, beta1: 0.8 });
        for (let k = 0; k < 2; k++) {
          single.zeroGrad(), alone.square().sum().backward(), single.step();
        }
        assertEquals(await b.toArray(), await alone.toArray());
        assertEquals(Object.keys(adam.stateDict()).includes("state.1.exp_avg"), true);
        return [await a.toArray(), await b.toArray()];
      };
      assertEquals(await run(true), await run(false));
    });
  },
);

testOnBackends("a group that cannot be added changes nothing", (backend) => {
  withDevice(backend, () => {
    const a = Tensor.ones([2], { requiresGrad: true }),
      b = Tensor.ones([2], { requiresGrad: true });
    const sgd = new optim.SGD([a], { lr: 0.1 });
    assertThrows(() => sgd.addParamGroup({ parameters: [a] }), TypeError, "twice");
    assertThrows(
      () => sgd.addParamGroup({ parameters: [b], nesterov: true }),
      RangeError,
      "nesterov",
    );
    assertThrows(() => sgd.addParamGroup({ parameters: [b], rate: 1 } as never), TypeError, "rate");
    assertThrows(() => sgd.addParamGroup([b] as never), TypeError);
    assertEquals(sgd.groups.length, 1);
    assertThrows(() => new optim.Lion([a], { beta2: 1 }), RangeError, "beta of 1");
  });
});
