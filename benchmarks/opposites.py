"""Words that mean the opposite: how near they seem, what is applied, what is said.

Ten faults, each with wordings that are known, and others that mean the same, the opposite,
a denial or another amount (``opposites.json``). The known ones are calibrated in two ways:
two notes that repeat, the fault and "All is well."; and free text, in which every wording
of every fault occurs once. "distance" is that of MiniLM from the nearest known wording.
"applied" is the share of the fault's shift that is subtracted under the new note, by
``ShiftCorrector``, ``RegimeCorrector`` and ``fit_corrector``; "told" is whether the last
warns, and "far" and "opposed" why. The rule for opposites is also applied to the wordings
of the bench's experiment ``unseen_words``, if the bench is installed.

    python benchmarks/opposites.py --csv benchmarks/results/opposites.csv
"""

import argparse
import json
import warnings
from pathlib import Path

import pandas as pd
import torch

from ma_sbi import SentenceEncoder, ShiftCorrector, fit_corrector
from ma_sbi.correctors import RegimeCorrector, UnseenContext
from ma_sbi.correctors.opposites import may_oppose
from ma_sbi.correctors.unseen import SeenContexts
from ma_sbi.encoders import TextEncoder

FAULTS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
FINE = ["All is well.", "Nothing to report.", "Everything works as it should."]
KINDS = ("paraphrase", "opposite", "negation", "amount")
DIM_X = 5
# Written when the rule was final, without looking at its list.
LATER = {
    "The camera overexposes.": "The camera underexposes.",
    "The model overestimates the yield.": "The model underestimates the yield.",
    "The rod has expanded.": "The rod has contracted.",
    "The cart accelerated during the run.": "The cart slowed down during the run.",
    "Soil was acidic.": "Soil was alkaline.",
    "The filter lets everything through.": "The filter holds everything back.",
    "The nurse recorded the pulse too often.": "The nurse recorded the pulse too rarely.",
    "Gain of the amplifier was turned up.": "Gain of the amplifier was turned down.",
    "The tank was overfilled.": "The tank was underfilled.",
    "There was a tailwind.": "There was a headwind.",
    "The patient had eaten.": "The patient was fasting.",
    "The tide was coming in.": "The tide was going out.",
    "The doors were locked.": "The doors were unlocked.",
    "Traffic was heavy.": "Traffic was light.",
    "The scale drifts to higher weights.": "The scale drifts to lower weights.",
    "Signals arrive with a delay.": "Signals arrive ahead of time.",
    "The laser is brighter than specified.": "The laser is dimmer than specified.",
    "Turnout was large.": "Turnout was small.",
    "The oven was switched on.": "The oven was switched off.",
    "Subjects guessed carelessly.": "Subjects answered carefully.",
}


class Remembering(TextEncoder):
    """MiniLM that encodes a text once, for the whole benchmark."""

    unrelated_from = SentenceEncoder.unrelated_from
    dim_ = 384
    known = {}

    def _encode(self, texts):
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known.update(zip(new, SentenceEncoder().transform(new), strict=True))
        return torch.tensor([self.known[text].tolist() for text in texts]).numpy()


def two_notes(fault, seed):
    """Calibrate with two notes, twenty rows each."""
    notes = [FAULTS[fault]["seen"][0], FINE[0]] * 20
    shift = direction(seed)
    return notes, torch.stack([shift, torch.zeros(DIM_X)]).repeat(20, 1), shift


def free_text(fault, seed):
    """Calibrate with every wording of every fault once."""
    notes, shifts = list(FINE), [torch.zeros(DIM_X)] * len(FINE)
    for number, (name, wordings) in enumerate(FAULTS.items()):
        shift = direction(100 * seed + number)
        notes += wordings["seen"]
        shifts += [shift] * len(wordings["seen"])
        if name == fault:
            own = shift
    return notes, torch.stack(shifts), own


def direction(seed):
    drawn = torch.randn(DIM_X, generator=torch.Generator().manual_seed(seed))
    return drawn / drawn.norm()


def applied(corrector, texts, shift):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = -corrector.correct(torch.zeros(len(texts), DIM_X), texts)
    return (found @ shift).tolist()


def warns(corrector, text):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrector.corrections(torch.zeros(1, DIM_X), [text])
    return any(issubclass(one.category, UnseenContext) for one in caught)


def measure(name, calibrate, seed):
    rows = []
    for fault, wordings in FAULTS.items():
        notes, shifts, own = calibrate(fault, seed)
        rng = torch.Generator().manual_seed(1000 + seed)
        x_sim = torch.randn(len(notes), DIM_X, generator=rng)
        pairs = notes, x_sim + shifts, x_sim
        encoder = Remembering()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            correctors = {
                "shift": ShiftCorrector(encoder).fit(*pairs),
                "regimes": RegimeCorrector(encoder).fit(*pairs, seed=seed),
                "fit_corrector": fit_corrector(*pairs, encoder=encoder, seed=seed),
            }
        chosen = correctors["fit_corrector"]
        known = torch.from_numpy(encoder.transform(sorted(set(notes))))
        for kind in ("seen", *KINDS):
            texts = wordings[kind] if name == "free text" else wordings[kind][:3]
            texts = [text for text in texts if kind != "seen" or text in notes]
            vectors = torch.from_numpy(encoder.transform(texts))
            table = pd.DataFrame(
                {
                    "calibration": name,
                    "fault": fault,
                    "kind": kind,
                    "text": texts,
                    "distance": torch.cdist(vectors, known).amin(dim=1).tolist(),
                    **{key: applied(one, texts, own) for key, one in correctors.items()},
                    "told": [warns(chosen, text) for text in texts],
                    "far": chosen.unseen(texts).far,
                    "opposed": chosen.unseen(texts).opposed,
                }
            )
            rows.append(table)
    return pd.concat(rows)


def on_the_bench(num_sets):
    """Apply the rule to wordings that were written for another purpose."""
    from ma_sbi_bench.trials.wordings import WORLDS, draw_words

    rows = []
    for world in WORLDS:
        for num_wordings in (1, 3, 8):
            for seed in range(num_sets):
                drawn = draw_words(world, 100, num_wordings, seed=seed)
                notes = pd.Series(drawn.context)
                seen = SeenContexts.of(notes, torch.zeros(len(notes), 1), Remembering())
                for kind in ("unseen", "negated", "unrelated"):
                    found = seen.read(pd.Series(drawn.texts[kind]))
                    table = {"far": found.far, "opposed": found.opposed}
                    rows.append(pd.DataFrame(table).assign(kind=kind, known=num_wordings))
    return pd.concat(rows).groupby(["kind", "known"])[["far", "opposed"]].mean()


def main(path, seed, num_sets):
    worlds = {"two notes": two_notes, "free text": free_text}
    each = pd.concat([measure(name, make, seed) for name, make in worlds.items()])
    numbers = ["distance", "shift", "regimes", "fit_corrector", "told", "far", "opposed"]
    kinds = pd.Categorical(each["kind"], ("seen", *KINDS))
    print(
        each.assign(kind=kinds)
        .groupby(["calibration", "kind"], observed=True)[numbers]
        .mean()
        .round(2)
        .to_string()
    )
    later = [may_oppose(*pair) for pair in LATER.items()]
    print(f"\nOf opposites that were written later: {sum(later)} of {len(later)} found")
    print(f"\nThe rule on the wordings of unseen_words, {num_sets} sets of each world:")
    print(on_the_bench(num_sets).round(3).to_string())
    if path is not None:
        each.round(4).to_csv(path, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    main(arguments.csv, arguments.seed, arguments.sets)
