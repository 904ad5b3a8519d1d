import "./app.css";
import { mount } from "svelte";
import { live } from "./api/live.svelte.ts";
import App from "./App.svelte";
import { hidden } from "./hidden.svelte.ts";
import { kiosk } from "./kiosk.svelte.ts";
import { theme } from "./theme.svelte.ts";
import { zone } from "./zone.svelte.ts";

theme.start();
zone.start();
hidden.start();
kiosk.start();
live.start();
const target = document.getElementById("app");
if (target) mount(App, { target });
