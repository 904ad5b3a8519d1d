import { expect, it } from "vitest";
import { link, parse, whole } from "./router.ts";

it("takes apart what it puts together", () => {
  const hostile = "<img src=x onerror=alert(1)>/../?#%";
  const place = parse(link("path", [hostile, "b c"], { last: 3600, begin: undefined }));
  expect(place.page).toBe("path");
  expect(place.parts).toEqual([hostile, "b c"]);
  expect(place.query.get("last")).toBe("3600");
  expect(place.query.has("begin")).toBe(false);
});

it("opens the overview without a hash, and bears a broken one", () => {
  expect(parse("").page).toBe("overview");
  expect(parse("#/runs/%E0%A4%A").parts).toEqual(["%E0%A4%A"]);
});

it("reads whole numbers only", () => {
  const query = new URLSearchParams("a=12&b=1e9&c=-5&d=");
  expect([whole(query, "a"), whole(query, "b"), whole(query, "c"), whole(query, "d")]).toEqual([
    12, undefined, -5, undefined,
  ]);
});
