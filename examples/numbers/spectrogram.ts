// Draws the spectrogram of a WAV file: deno run -A spectrogram.ts sound.wav picture.png
import { fft, loadWav, saveImage, Tensor } from "@netcl/netcl";

const [sound, picture = "spectrogram.png"] = Deno.args;

/** A tone that rises from 200 to 3,000 Hz within two seconds, where no file is named. */
function rising(rate: number): Tensor {
  const time = Tensor.arange(0, 2 * rate, 1, { dtype: "float32" }).div(rate);
  return time.mul(time.mul(700).add(200)).mul(2 * Math.PI).sin();
}

const { samples, sampleRate } = sound === undefined
  ? { samples: rising(8000).unsqueeze(0), sampleRate: 8000 }
  : await loadWav(sound);

// Channels as one; frequencies from the bottom up, times from left to right.
const spectra = fft.stft(samples.mean(0), { n: 512, hop: 128, window: fft.hann(512) });
const decibels = spectra.abs().clamp(1e-5).log10().mul(20).flip(0);
const top = decibels.max(), shades = decibels.sub(top).div(80).add(1).clamp(0);
const colours = [shades.pow(0.7), shades.square(), shades.mul(2 * Math.PI).sin().abs().mul(0.5)];
await saveImage(picture, Tensor.stack(colours));

const loudest = await spectra.abs().argmax(0).cast("float32").mul(sampleRate / 512).toNumbers();
const seconds = samples.shape[1]! / sampleRate;
for (const share of [0.1, 0.5, 0.9]) {
  const hertz = loudest[Math.floor(share * loudest.length)]!;
  console.log(`after ${(share * seconds).toFixed(2)} s: loudest at ${Math.round(hertz)} Hz`);
}
console.log(`${picture}: ${decibels.shape.join(" x ")}`);
