"use strict";
for (const box of document.querySelectorAll(".sortable")) {
  const body = box.querySelector("tbody");
  const heads = [...box.querySelectorAll("th")];
  const key = (row, column) => row.cells[column].dataset.order;
  const compare = (a, b) => {
    const difference = Number(a) - Number(b);
    return Number.isNaN(difference) ? a.localeCompare(b) : difference;
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const known = (row) => key(row, column) !== undefined;
      const rows = [...body.rows];
      const filled = rows.filter(known);
      filled.sort((a, b) => (down ? -1 : 1) * compare(key(a, column), key(b, column)));
      // What is blank comes last in either order.
      body.append(...filled, ...rows.filter((row) => !known(row)));
    });
  });
  const field = box.querySelector("input");
  if (field) {
    const shown = box.querySelector(".shown");
    const all = body.rows.length;
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      let count = 0;
      for (const row of body.rows) {
        const cells = [...row.cells].map((cell) => cell.textContent);
        const text = cells.join(" ").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += row.hidden ? 0 : 1;
      }
      shown.textContent = count < all ? `${count} of ${all} rows` : "";
    });
  }
}
