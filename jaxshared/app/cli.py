"""``jaxshared``: fit, sweep, verify, retrieve and report on files.

Exit codes: 0 done, 1 failed (a check is wrong, the disk is full, a fit is not finite), 2 the input
or an argument is wrong, 130 interrupted (the same command goes on).
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import os
import signal
import sys
import threading
import warnings

from jaxshared.app import commands, read, settings, stops
from jaxshared.app.heard import Heard
from jaxshared.app.inputs import MODELS
from jaxshared.app.runs import Interrupted
from jaxshared.data.structure import readable_bytes
from jaxshared.programs import keep_programs

__all__ = ["main", "parser"]

#: Every command: what it is asked with, and what does it.
COMMANDS = {
    "demo": (settings.Demo, commands.demo),
    "fit": (settings.Fit, commands.fit_files),
    "sweep": (settings.Sweep, commands.sweep_files),
    "verify": (settings.Verify, commands.verify_files),
    "retrieve": (settings.Retrieve, commands.retrieve),
    "report": (settings.Report, commands.report_run),
}

#: What JAX's compiler takes for small programs, measured, with some room: see tests/app/test_faults.py.
ADDRESS_SPACE = 3 * 10**9
NO_ROOM = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "the disk of {} is full")
NO_ROOM[errno.EFBIG] = "a file in {} would be larger than is allowed (ulimit -f)"
# What is wrong with what was asked for.
INPUT = (ValueError, TypeError, ImportError, FileNotFoundError, PermissionError)
NOTHING_LOST = "interrupted; nothing was lost that was already kept."
NO_MEMORY = "RESOURCE_EXHAUSTED", "Out of memory"  # in JAX's words
OUT_OF_MEMORY = "out of memory: use sparse files, fewer --restarts or lower ranks."

EXAMPLES = """\
examples:
  jaxshared demo                                     see what it does, on the two halves of a manual
  jaxshared fit news.npz blogs.npz --shared 15 --specific 10,8 --vocabulary terms.txt
  jaxshared fit a.csv b.csv --transpose --model rjsnmf --shared 5 --specific 4,4 --set coherence=10
  jaxshared sweep a.npy b.npy --shared 0:16:2 --total 16 --restarts 5
  jaxshared retrieve jaxshared-fit --query "engine oil" --source 0
  jaxshared verify                                   check the updates of every model
  jaxshared fit news/ blogs/ --shared 10 --specific 5,5 --tfidf --stop-words english
  jaxshared fit articles.csv --text body --outlet paper --title headline --shared 10 --specific 5 --tfidf

Folders hold .txt files, one per document. Files are .npy, .npz (dense, or scipy sparse), .csv, .tsv,
.mtx, .parquet, .h5ad or .h5mu; rows are features, columns are samples (--transpose if not). A run that
was stopped goes on when the same command is given again.
"""

FIT = """\
examples:
  jaxshared fit x.npy --rank 10                              one source: NMF
  jaxshared fit x.npy y.npy --shared 5 --specific 4,3        two sources: JSNMF
  jaxshared fit x.npy y.npy --model rjsnmf --shared 5 --specific 4,3 --set coherence=10
  jaxshared fit x.mtx y.mtx z.mtx --model sharednmf --sharing "0+1+2=5,0+1=2,0=3,1=3,2=3"
  jaxshared fit pixels.npy strokes.npy --model multinmf --rank 10 --labels digits.txt

writes into --output:
  result.npz      for js.load          factors.npz    plain arrays
  components.csv  energy, top terms    clusters.csv   with --clusters or --labels
  report.html     open in a browser    settings.json  everything needed to do it again
"""

SWEEP = """\
examples:
  jaxshared sweep x.npy --rank 2:20:2 --restarts 5
  jaxshared sweep x.npy y.npy --shared 0:16:2 --total 16     K shared of 16 components each
  jaxshared sweep x.npy y.npy --model rjsnmf --shared 5 --specific 4,4 --vary coherence=0,1,10,100

a:b:c counts from a to b, both included, in steps of c; a,b,c names values.
writes table.csv, report.html and settings.json into --output.
"""


def parser():
    """The whole command line."""
    top = _Parser(
        prog="jaxshared",
        description="What several data sets have in common, and what each has alone.",
        epilog=EXAMPLES,
    )
    subs = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    add = _adder(subs, "demo", "what two halves of a manual have in common, as a report")
    add("-o", "--output", default="demo", help="folder for report.html (default: demo)")
    add("--quick", action="store_true", help="few samples and steps")
    add("--seed", type=read.whole, default=0)
    add("-q", "--quiet", action="store_true")

    add = _adder(subs, "fit", "shared and specific factors of files", FIT)
    _sources(add)
    _model(add)
    _solver(add)
    _output(add, "jaxshared-fit")
    add(
        "--clusters",
        type=read.count,
        metavar="N",
        help="also cluster samples (default: if --labels)",
    )
    _top(add)
    text = "one of many processes: the files are parts of one source, or 'a-*.npz' in quotes each"
    add("--distributed", action="store_true", help=text)
    add("--coordinator", metavar="HOST:PORT", help="of process 0, where no scheduler says it")
    add("--processes", type=read.count, metavar="N", help="how many there are")
    add("--process", type=read.whole, metavar="I", help="which of them this is")

    add = _adder(subs, "sweep", "many ranks and strengths in one compiled program", SWEEP)
    _sources(add)
    _model(add)
    _solver(add)
    _output(add, "jaxshared-sweep")
    add("--vary", type=read.axis, action="append", default=[], metavar="NAME=A,B", help="an axis")
    add("--total", type=int, metavar="R", help="keep shared + specific at R for every source")

    add = _adder(subs, "verify", "check hand-written updates against autodiff", VERIFY)
    _sources(add, number="*")
    _model(add)
    add("--seed", type=read.whole, default=0)
    add(
        "--limit",
        type=read.count,
        default=100,
        metavar="N",
        help="corner of the files (default: 100)",
    )
    add("--long", action="store_true", help="show every check")

    add = _adder(subs, "retrieve", "samples of a run that are nearest to a query", RETRIEVE)
    add("run", help="folder of a fit")
    add("--query", action="append", required=True, metavar="WORDS", help="may be repeated")
    add("--source", default="0", metavar="NAME", help="its name or number (default: 0)")
    add("--top", type=read.count, default=10, metavar="N", help="hits per query (default: 10)")
    add("--vocabulary", metavar="FILE", help="one term per feature (default: that of the run)")
    add("--items", metavar="FILE", help="one title per sample, shown instead of its number")
    add("--exact", action="store_true", help="whole terms only: car is not carpet")

    add = _adder(subs, "report", "write the report of a run again, with names or labels")
    add("run", help="folder of a fit")
    _names(add)
    add("--clusters", type=read.count, metavar="N")
    _top(add)
    return top


VERIFY = """\
examples:
  jaxshared verify                      every model, on random numbers
  jaxshared verify --model rjsnmf --long
  jaxshared verify x.npy y.npy --shared 3 --specific 2,2
"""

RETRIEVE = 'example: jaxshared retrieve jaxshared-fit --query "engine oil" --query mideast'


class _Parser(argparse.ArgumentParser):
    """Keeps the examples as they are written, and says what is wrong in one line."""

    def __init__(self, **options):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _adder(subs, name, text, epilog=None):
    return subs.add_parser(name, help=text, description=text, epilog=epilog).add_argument


def _sources(add, number="+"):
    add("sources", nargs=number, metavar="FILE", help="one file per source")
    add("--transpose", action="store_true", help="rows of the files are samples")
    add("--header", type=read.yes, metavar="yes/no", help="text tables: the first row holds names")
    add(
        "--index", type=read.yes, metavar="yes/no", help="text tables: the first column holds names"
    )
    add(
        "--align", choices=("union", "common"), help="names that not all files have (see the guide)"
    )
    add("--missing", action="store_true", help="empty cells, NA and NaN are entries not seen")
    add("--text", metavar="COLUMN", help="tables of texts: the column with the texts")
    add("--outlet", metavar="COLUMN", help="tables of texts: the column that says whose a text is")
    add("--title", metavar="COLUMN", help="tables of texts: the column with titles to show")
    add("--tfidf", action="store_true", help="weight terms by their rarity")
    add("--stop-words", metavar="english|FILE", help="terms of texts to leave out, one per line")
    add("--min-documents", type=read.count, default=1, metavar="N", help="leave out rarer terms")
    _names(add)


def _names(add):
    add("--names", type=read.words, metavar="A,B", help="of the sources (default: of the files)")
    add("--vocabulary", metavar="FILE", help="text, one term per feature")
    add("--labels", nargs="+", metavar="FILE", help="text, one category per sample, one file each")


def _top(add):
    words = "terms shown per component (default: 8)"
    add("--top", type=read.count, default=8, metavar="N", help=words)


def _model(add):
    names = ", ".join(MODELS)
    choices = {"type": str.lower, "choices": ("auto", *MODELS)}
    add("--model", default="auto", metavar="NAME", help=names, **choices)
    add("--rank", type=read.ints, metavar="R")
    add("--shared", type=read.ints, metavar="K", help="components that all sources share")
    add("--specific", type=read.ints, metavar="R,R", help="components of each source alone")
    add("--sharing", metavar="SETS", help='any pattern, as in "0+1=5,0=3,1=2"')
    pair = {"type": read.pair, "action": "append", "default": [], "metavar": "NAME=VALUE"}
    add("--set", dest="strengths", help="strengths and options of the model", **pair)


def _solver(add):
    solvers = ("accelerated", "hals", "multiplicative", "projected")
    add("--solver", choices=solvers, default="accelerated")
    add(
        "--restarts",
        type=read.count,
        metavar="N",
        help="the best is kept (default: up to 3, by cost)",
    )
    add("--max-steps", type=read.count, default=500, metavar="N", help="(default: 500)")
    add("--tol", type=float, default=1e-5, help="relative change to stop at (default: 1e-5)")
    add("--init", help="random, nndsvd, nndsvda, nndsvdar, allotted (default: the model's)")
    add("--seed", type=read.whole, default=0, help="the same seed, the same result (default: 0)")


def _output(add, default):
    add("-o", "--output", default=default, metavar="FOLDER", help=f"(default: {default})")
    add("--force", action="store_true", help="start afresh in a folder that holds a run")
    add("-q", "--quiet", action="store_true", help="no progress")


def main(arguments=None):
    """Run one command; returns the exit code.

    Given ``arguments``, it is a plain function; as a command it also keeps compiled programs and
    takes ``kill`` for Ctrl-C, which are the process's business.
    """
    folder, leave = ".", arguments is None
    try:
        if leave:
            arguments = sys.argv[1:]
            stops.listen()
            sys.unraisablehook = _again
            sys.stdout, sys.stderr = Heard(sys.stdout), Heard(sys.stderr)
            keep_programs()
        command, asked, folder = _asked(arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_: _complain(message, 0)
            _check_address_space()
            code = command(asked)
            return _all_heard(code) if leave else code
    except Interrupted as error:
        return _stopped(error, leave)
    except KeyboardInterrupt:
        return _stopped(NOTHING_LOST, leave)
    except Exception as error:
        if stops.asked():  # what foreign code made of a signal
            return _stopped(NOTHING_LOST, leave)
        return _failed(error, folder)


def _failed(error, folder):
    """One line and the exit code; what nobody has foreseen is raised again."""
    text = str(error)
    no_device = isinstance(error, RuntimeError) and "Unable to initialize backend" in text
    if no_device or isinstance(error, INPUT):
        return _complain(error, 2)
    full = isinstance(error, RuntimeError) and any(words in text for words in NO_MEMORY)
    if full or isinstance(error, MemoryError):
        return _complain(OUT_OF_MEMORY, 1)
    if not isinstance(error, OSError):
        raise error
    if error.errno in NO_ROOM:
        why = NO_ROOM[error.errno].format(folder)
        return _complain(f"{why}: no result was written.", 1)
    return _complain(error, 1)


def _all_heard(code):
    """The exit code, if what was printed could be written; a reader who has seen enough is no fault."""
    sys.stdout.flush()
    lost = sys.stdout.lost
    if lost is None or isinstance(lost, BrokenPipeError):
        return code
    return _complain(f"what was to be printed could not be written ({lost.strerror}).", code or 1)


def _check_address_space():
    """Where the address space is limited, JAX's compiler ends the process: say so before it does."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise ValueError(
            f"the address space is limited to {readable_bytes(limit)} (ulimit -v): JAX's compiler needs "
            f"{readable_bytes(ADDRESS_SPACE)} beside the data. Raise it, or limit the memory in use instead."
        )


def _asked(arguments):
    """What does a command, its settings, and the folder that it writes into."""
    given = vars(parser().parse_args(arguments))
    cls = COMMANDS[given["command"]][0]
    given["again"] = tuple(arguments)
    pairs = given.get("strengths", ())
    given["strengths"] = dict(pairs)
    if len(given["strengths"]) < len(pairs):
        raise ValueError("--set says the same name twice: say it once.")
    fields = {field.name for field in dataclasses.fields(cls)}
    chosen = {name: settings.frozen(v) for name, v in given.items() if name in fields}
    return (
        COMMANDS[given["command"]][1],
        cls(**chosen),
        given.get("output") or given.get("run") or ".",
    )


def _stopped(error, leave):
    """One line, and 130. A command ends here: torn out of a compilation, JAX crashes at the usual end."""
    _complain(error, 130)
    if leave:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
    return 130


def _again(lost):
    """A signal that comes while garbage is collected is lost there: it comes once more."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(lost)


def _complain(error, code):
    text = " ".join(str(error).split())
    print(f"jaxshared: {text}", file=sys.stderr)
    return code
