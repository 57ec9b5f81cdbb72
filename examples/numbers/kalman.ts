// A Kalman filter for one track, and for two hundred at once by vmap.
import { func, manualSeed, Tensor } from "@netcl/netcl";

const steps = 40, tracks = 200, dt = 0.1, push = 1, blur = 0.5;

/** Positions of a track from blurred ones: [steps] gives [steps]. The state is position and speed. */
function filter(seen: Tensor): Tensor {
  let place = seen.slice(0), speed = place.zerosLike();
  // The covariance of the state, of which three numbers are known: it is symmetric.
  let [pp, pv, vv] = [blur ** 2, 0, 10];
  const found = [place];
  for (let k = 1; k < steps; k++) {
    place = place.add(speed.mul(dt));
    [pp, pv, vv] = [pp + dt * (2 * pv + dt * vv), pv + dt * vv, vv + (push * dt) ** 2];
    const trust = pp + blur ** 2, missed = seen.slice(k).sub(place);
    place = place.add(missed.mul(pp / trust));
    speed = speed.add(missed.mul(pv / trust));
    [pp, pv, vv] = [pp - pp * pp / trust, pv - pp * pv / trust, vv - pv * pv / trust];
    found.push(place);
  }
  return Tensor.stack(found);
}

manualSeed(5);
const speeds = Tensor.randn([tracks, steps]).mul(push * dt).cumsum(1).add(
  Tensor.randn([tracks, 1]),
);
const truth = speeds.mul(dt).cumsum(1).realize();
const seen = truth.add(Tensor.randn([tracks, steps]).mul(blur)).realize();

const found = func.vmap(filter)(seen) as Tensor;
const error = (x: Tensor) => x.sub(truth).slice(null, [10, null]).square().mean().sqrt().item();
console.log(`${tracks} tracks of ${steps} steps`);
console.log(`error of what is seen: ${(await error(seen)).toFixed(3)}`);
console.log(`error of the filter: ${(await error(found)).toFixed(3)}`);
console.log(
  `as one by one: ${await filter(seen.slice(7)).allClose(found.slice(7), { atol: 1e-4 })}`,
);
