"""Names say what they are (docs/development.md): no definition has a word that needs its context to mean anything."""

import ast
import re
from functools import cache

from shared import ROOT


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


@cache
def trees() -> list[tuple[str, ast.AST]]:
    """Return path and syntax tree of every module of the package."""
    files = sorted(path for room in ("mog_assets", "resources") for path in (ROOT / room).rglob("*.py"))
    return [(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


BANNED = words(
    """
    again alike among asked drawn found having held hits kept lifted made mend once said same shared sought stays told
    whole
    """
)
# Names that files or other packages have, with the reason.
ALLOWED = {
    ("mog_assets/cli/findings.py", "found"): "`mog doctor --json` has it as a key",
    ("mog_assets/plugins/generated_questions/candidates.py", "said"): "a column of a stored table",
    ("mog_assets/search/parts.py", "made"): "the name of a stored array",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# First words of docstrings, all of them verbs; a new one is added here.
VERBS = words(
    """
    Add Answer Append Apply Ask Assign Begin Bring Build Call Check Choose Clear Close Collect Combine Compare
    Connect Convert Count Create Decide Delete Describe Divide Do Draw Drop Encode End Enter Fetch Find Fit
    Follow Fuse Give Grade Handle Have Hold Import Join Keep Kill Leave Let Limit Load Lock Log Look Lose Make
    Map Mark Materialise Measure Name Note Offer Open Pack Pair Parse Plot Print Publish Put Raise Rank Read
    Receive Record Reject Remove Rename Repeat Report Resolve Retrieve Return Round Run Say Score Search See
    Send Serve Show Signal Skip Split Spread Start Stop Store Sum Take Tell Test Tokenise Train Translate Turn
    Wait Weigh Write Yield
    """
)


QUESTION_WORD = re.compile(r"(What|How|Whether|Which|Where|Why|Who|When)\b")


def defined(tree: ast.AST) -> list[tuple[int, str]]:
    """Return line and name of every class, function, parameter, variable and field that a module defines."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.append((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.attr))
        elif isinstance(node, ast.ExceptHandler | ast.alias) and (name := getattr(node, "asname", node.name)):
            names.append((node.lineno, name))
    return names


def is_banned(name: str) -> bool:
    """Tell whether a name is a banned word, private or not, in any case."""
    return name.strip("_").lower() in BANNED


def misnamed(own: str, tree: ast.AST) -> list[str]:
    """Return place and name of what has a banned name and may not."""
    bad = sorted({(line, name) for line, name in defined(tree) if is_banned(name) and (own, name) not in ALLOWED})
    return [f"{own}:{line}: {name}" for line, name in bad]


def is_property(function: ast.AST) -> bool:
    """Tell whether a function is read like an attribute."""
    return any(re.search(r"property|\.setter", ast.unparse(decorator)) for decorator in function.decorator_list)


def verbless(own: str, tree: ast.AST) -> list[str]:
    """Return place and first word of docstrings that say what something is, not what a function does."""
    bad = []
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and (text := ast.get_docstring(node)) and not is_property(node):
            word = re.split(r"[\s,:;.]", text, maxsplit=1)[0]
            if word not in VERBS:
                bad.append(f"{own}:{node.lineno}: {node.name}: {word}")
    return bad


def indirect(own: str, tree: ast.AST) -> list[str]:
    """Return place of docstrings of classes and properties that ask what something is instead of naming it."""
    kinds = (*FUNCTIONS, ast.ClassDef)
    documented = [(node, ast.get_docstring(node) or "") for node in ast.walk(tree) if isinstance(node, kinds)]
    return [f"{own}:{node.lineno}: {node.name}" for node, text in documented if QUESTION_WORD.match(text)]


def test_no_definition_has_a_name_that_needs_its_context():
    bad = [fault for own, tree in trees() for fault in misnamed(own, tree)]
    assert not bad, "names that do not say what they are; see the words of BANNED:\n" + "\n".join(bad)


def test_every_allowed_name_is_still_there():
    there = {(own, name) for own, tree in trees() for _, name in defined(tree)}
    assert {(own, name) for own, name in ALLOWED if (ROOT / own).exists()} <= there


def test_docstrings_of_functions_begin_with_a_verb():
    bad = [fault for own, tree in trees() for fault in verbless(own, tree)]
    assert not bad, "docstrings whose first word is no verb of VERBS:\n" + "\n".join(bad)


def test_docstrings_of_classes_name_what_they_are():
    bad = [fault for own, tree in trees() for fault in indirect(own, tree)]
    assert not bad, "docstrings that begin with a question word:\n" + "\n".join(bad)
