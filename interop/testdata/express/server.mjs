// A catalog behind express-rate-limit, once for every way in which it can
// announce its quota and every piece of work that the tests do:
//
//   node server.mjs LIMIT WINDOW_MS ITEMS
//
// listens on a free loopback port, prints it, and ends with its standard input.
//
//   /STYLE/WORK/v1/cafes   a list: limit, desplacament, {"dades", "total"}
//   /counts                what each limiter was asked for and has let through

import express from "express";
import { rateLimit } from "express-rate-limit";

const [limit, windowMs, size] = process.argv.slice(2).map(Number);

// How express-rate-limit announces the quota, by its own settings.
const styles = {
  aroma: { standardHeaders: false, legacyHeaders: false, handler: refuse },
  "draft-6": { standardHeaders: "draft-6", legacyHeaders: false },
  "draft-7": { standardHeaders: "draft-7", legacyHeaders: false },
  "draft-8": { standardHeaders: "draft-8", legacyHeaders: false },
  legacy: { standardHeaders: false, legacyHeaders: true },
};

// announce writes the headers of Botiga Aroma from what the limiter counted.
function announce(req, res) {
  const { limit, remaining, resetTime } = req.rateLimit;
  res.set("Aroma-RateLimit-Limit", String(limit));
  res.set("Aroma-RateLimit-Restants", String(remaining));
  res.set("Aroma-RateLimit-Reinici", String(Math.ceil(resetTime.getTime() / 1000)));
}

function refuse(req, res) {
  announce(req, res);
  const wait = Math.max(1, Math.ceil((req.rateLimit.resetTime.getTime() - Date.now()) / 1000));
  res.set("Retry-After", String(wait));
  res.status(429).json({ error: { codi: "limit_peticions", missatge: "Massa peticions.", detalls: [] } });
}

const app = express();
const counts = {};

for (const [style, settings] of Object.entries(styles)) {
  for (const work of ["catalog", "crowd"]) {
    const count = (counts[`${style}/${work}`] = { asked: 0, passed: 0, windows: 0 });
    const windows = new Set();
    const limiter = rateLimit({ limit, windowMs, keyGenerator: () => "everybody", ...settings });
    app.use(`/${style}/${work}`, (_req, _res, next) => {
      count.asked++;
      next();
    }, limiter, (req, res, next) => {
      count.passed++;
      count.windows = windows.add(req.rateLimit.resetTime.getTime()).size;
      if (style === "aroma") announce(req, res);
      next();
    });
  }
}

app.get("/:style/:work/v1/cafes", (req, res) => {
  const from = Number(req.query.desplacament ?? 0);
  const to = Math.min(size, from + Math.min(100, Number(req.query.limit ?? 20)));
  const dades = [];
  for (let n = from + 1; n <= to; n++) dades.push({ id: n, nom: `Cafè ${n}` });
  res.json({ dades, total: size });
});

app.get("/counts", (_req, res) => res.json(counts));

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
