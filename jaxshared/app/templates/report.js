"use strict";
// Tables: a click on a heading sorts by that column.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "descending";
    heads.forEach(each => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    const key = row => { const cell = row.cells[column]; const number = parseFloat(cell.textContent); return cell.classList.contains("number") && !isNaN(number) ? number : cell.textContent; };
    const rows = [...table.tBodies[0].rows].sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? 1 : -1); });
    table.tBodies[0].append(...rows);
  }));
}
// Components: search, order, kinds of words, map, and what hovering tells.
const tip = document.getElementById("tip");
for (const root of document.querySelectorAll(".topics")) {
  const known = JSON.parse(root.querySelector("script").textContent);
  const one = name => root.querySelector(name), all = name => [...root.querySelectorAll(name)];
  const cards = all(".card"), map = one(".map"), bubbles = all(".bubble"), list = one(".cards");
  const off = new Set();
  const filter = () => {
    const wanted = one("[type=search]").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const there = wanted.every(word => card.dataset.text.includes(word)) && !off.has(card.dataset.group);
      card.hidden = !there; count += there;
      bubbles[card.dataset.number].classList.toggle("out", !there);
    }
    one(".count").textContent = `${count} of ${cards.length}`;
    one(".none").style.display = count ? "none" : "block";
  };
  const order = () => {
    const by = one(".order").value, number = card => +card.dataset.number;
    list.append(...[...cards].sort((a, b) => by === "name" ? number(a) - number(b) : b.dataset[by] - a.dataset[by] || number(a) - number(b)));
  };
  const show = (text, event, numbers) => {
    tip.textContent = text; tip.style.visibility = "visible";
    const box = event.target.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(box.left, innerWidth - own.width - 4)) + "px";
    tip.style.top = (box.bottom + own.height + 8 < innerHeight ? box.bottom + 6 : Math.max(4, box.top - own.height - 6)) + "px";
    map.classList.add("dim"); numbers.forEach(r => bubbles[r].classList.add("lit"));
  };
  const hide = () => { tip.style.visibility = "hidden"; map.classList.remove("dim"); all(".lit").forEach(each => each.classList.remove("lit")); };
  const parts = pairs => pairs.map(([r, part]) => `${known.labels[r]}: ${part.toFixed(1)} %`).join("\n");
  const hovers = (elements, text, numbers, also) => elements.forEach(each => {
    const on = event => { hide(); show(text(each), event, numbers(each)); if (also) also(each); };
    each.addEventListener("mouseenter", on); each.addEventListener("focus", on);
    each.addEventListener("mouseleave", hide); each.addEventListener("blur", hide);
  });
  const word = each => known.words[each.dataset.word] || [], sample = each => known.samples[each.dataset.sample] || [];
  hovers(all(".word"), each => `“${each.dataset.word}”, its part of\n${parts(word(each))}`, each => word(each).map(p => p[0]),
    each => all(".word").forEach(other => other.classList.toggle("lit", other.dataset.word === each.dataset.word)));
  hovers(all(".sample"), each => `${each.textContent.trim()} is made of\n${parts(sample(each))}`, each => sample(each).map(p => p[0]));
  hovers(bubbles, each => each.dataset.tip, each => [+each.dataset.number], each => cards[each.dataset.number].classList.add("lit"));
  cards.forEach(card => { card.addEventListener("mouseenter", () => bubbles[card.dataset.number].classList.add("lit")); card.addEventListener("mouseleave", hide); });
  one("[type=search]").addEventListener("input", filter);
  one(".order").addEventListener("change", order);
  const kind = one(".kind"); if (kind) kind.addEventListener("change", event => root.classList.toggle("distinct", event.target.value === "own"));
  const place = one(".place"); if (place) place.addEventListener("change", () => { map.classList.add("moves"); map.classList.toggle("like", place.value === "like"); });
  all(".chip").forEach(chip => chip.addEventListener("click", () => {
    const name = chip.dataset.group, gone = off.delete(name); if (!gone) off.add(name);
    chip.setAttribute("aria-pressed", String(gone)); filter();
  }));
  filter(); order();
}
