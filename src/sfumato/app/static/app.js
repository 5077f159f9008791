// The script of the page: uploads, forms that keep what was typed, progress, choosing many columns, copying, and closing explanations with Escape.
// Every page works without it except the upload; texts come from the page, so that they are in its language.

const ROOT = new URL("..", import.meta.url).pathname.slice(0, -1); // the random path that all pages are below
const EVERY = 400; // milliseconds between two questions about a job
const MISSES = 3; // questions without an answer before the page says so

// ---- upload: the body of the request is the file, so that the server can count it while it arrives

function prepareUploads() {
  document.querySelectorAll("form[data-upload]").forEach((form) => form.addEventListener("submit", (event) => {
    event.preventDefault();
    const file = form.querySelector("[type=file]").files[0];
    const error = form.querySelector("[role=alert]");
    error.textContent = "";
    if (!file) return;
    if (file.size > Number(form.dataset.most)) { error.textContent = form.dataset.large; return; }
    const query = new URLSearchParams(new FormData(form));
    query.set("name", file.name);
    const bar = form.querySelector("progress");
    const button = form.querySelector("button");
    const sending = new XMLHttpRequest();
    const fail = (text) => { error.textContent = text; bar.hidden = true; button.disabled = false; };
    sending.open("POST", `${ROOT}${form.dataset.upload}?${query}`);
    sending.upload.addEventListener("progress", (now) => { if (now.lengthComputable) bar.value = now.loaded / now.total; });
    sending.addEventListener("error", () => fail(form.dataset.broken));
    sending.addEventListener("load", () => {
      let answer = {};
      try { answer = JSON.parse(sending.responseText); } catch { /* not ours: said below */ }
      if (sending.status === 200 && answer.next) show(ROOT + answer.next, true);
      else fail(answer.error || form.dataset.broken);
    });
    bar.hidden = false;
    button.disabled = true;
    sending.send(file);
  }));
}

// ---- forms: an error is shown above the form, which keeps what was typed

function prepareForms() {
  document.querySelectorAll("form[method=post]").forEach((form) => form.addEventListener("submit", async (event) => {
    if (event.submitter?.dataset.plain !== undefined) return; // a download
    event.preventDefault();
    if (form.dataset.sending) return;
    form.dataset.sending = "yes";
    form.parentNode.querySelector(":scope > .refused")?.remove();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { accept: "text/html" } });
      const page = await ourPage(answer);
      const refusal = page?.querySelector("main [role=alert]");
      if (answer.status === 400 && refusal) {
        refusal.classList.add("refused");
        form.before(refusal);
        refusal.tabIndex = -1;
        refusal.focus();
      } else if (page) place(page, answer.url, answer.url !== location.href);
      else location.reload(); // the session has ended, and the server says what to do
    } finally {
      delete form.dataset.sending;
    }
  }));
}

// ---- pages: a finished job puts its result in place, without a reload

async function show(address, isNew) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  const page = await ourPage(answer);
  if (page) place(page, answer.url, isNew);
  else location.assign(address); // a document by itself, or the session has ended
}

// undefined for another document, which is not parsed: the policy of this page forbids its inline style
async function ourPage(answer) {
  const text = await answer.text();
  return text.includes('<nav class="steps"') ? new DOMParser().parseFromString(text, "text/html") : undefined;
}

function place(page, address, isNew) {
  const top = scrollY;
  for (const part of [".skip", "main", ".steps", ".topbar"]) {
    const here = document.querySelector(part), there = page.querySelector(part);
    if (here && there) here.replaceWith(there);
  }
  document.title = page.title;
  document.documentElement.lang = page.documentElement.lang;
  document.querySelector("footer").replaceWith(page.querySelector("footer"));
  if (isNew) history.pushState(null, "", address);
  document.querySelector("main").focus({ preventScroll: true });
  scrollTo(0, isNew ? 0 : top);
  prepare();
}

// ---- progress

function prepareProgress() {
  const box = document.querySelector("[data-job]");
  if (!box) return;
  const job = box.dataset.job;
  const bar = box.querySelector("progress"), seconds = box.querySelector(".seconds");
  const list = box.querySelector(".said"), live = box.querySelector(".live");
  let last = "", misses = 0;
  const ask = async () => {
    if (!document.contains(box)) return;
    let now;
    try {
      const answer = await fetch(`${ROOT}/jobs/${job}`);
      if (!answer.ok) { location.reload(); return; } // the session has ended, and the server says what to do
      now = await answer.json();
      if (now.over) { await show(now.next ? ROOT + now.next : location.href, Boolean(now.next)); return; }
      if (misses) live.textContent = "";
      misses = 0;
    } catch {
      misses += 1;
      if (misses === MISSES) live.textContent = box.dataset.gone;
      setTimeout(ask, 4 * EVERY);
      return;
    }
    seconds.textContent = Math.round(now.seconds);
    if (now.share !== null) {
      bar.value = now.share;
      const left = Math.ceil(now.seconds * (1 - now.share) / Math.max(now.share, 0.01));
      box.querySelector(".left").textContent = ` · ${box.dataset.left.replace("{share}", Math.round(100 * now.share)).replace("{seconds}", left)}`;
    }
    list.replaceChildren(...now.said.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    const line = now.said.at(-1) || "";
    if (line && line !== last) { live.textContent = line; last = line; }
    setTimeout(ask, EVERY);
  };
  setTimeout(ask, EVERY);
}

// ---- many columns at once: a click with Shift takes the columns between

function prepareColumns() {
  const form = document.getElementById("roles");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=column]")];
  const told = form.querySelector("[data-picked]");
  let last = null;
  const tell = () => { told.textContent = told.dataset.picked.replace("{n}", boxes.filter((box) => box.checked).length); };
  boxes.forEach((box, place) => box.addEventListener("click", (event) => {
    if (event.shiftKey && last !== null) {
      const [from, to] = [Math.min(place, last), Math.max(place, last)];
      boxes.slice(from, to + 1).forEach((one) => { one.checked = box.checked; });
    }
    last = place;
    tell();
  }));
  form.querySelectorAll("[data-pick]").forEach((button) => button.addEventListener("click", () => {
    boxes.forEach((box) => { box.checked = button.dataset.pick === "all"; });
    tell();
  }));
  tell();
}

// ---- copying, and explanations that Escape closes

function prepareCopies() {
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "✓";
  }));
}

function prepareTerms() {
  document.querySelectorAll(".term").forEach((term) => {
    const open = () => term.classList.remove("dismissed");
    term.addEventListener("mouseenter", open);
    term.addEventListener("focus", open);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.querySelectorAll(".term").forEach((term) => term.classList.add("dismissed"));
});
window.addEventListener("popstate", () => location.reload());

function prepare() {
  prepareUploads();
  prepareForms();
  prepareProgress();
  prepareColumns();
  prepareCopies();
  prepareTerms();
}

prepare();
