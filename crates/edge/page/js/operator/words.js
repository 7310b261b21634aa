// Figures as operators read them.

const numbers = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** "12,345" */
export function whole(number) {
  return numbers.format(number || 0);
}

/** "3.2/s" */
export function perSecond(rate) {
  if (rate === undefined || rate === null) return '–';
  return `${rate > 0 && rate < 10 ? rate.toFixed(1) : whole(rate)}/s`;
}

/** A time in seconds, as "0.8 ms" or "1.2 s". */
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const ms = seconds * 1000;
  if (ms >= 1000) return `${seconds.toFixed(1)} s`;
  return `${ms < 10 ? ms.toFixed(1) : whole(ms)} ms`;
}

/** How long something lasts: "3 h 12 min". */
export function lasting(milliseconds) {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return `${Math.floor(milliseconds / 1000)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}
