"""Targets are found wherever they stand in the command line, and files that do not exist are named."""

import pytest

from howmanygpus.plan.config.command_line import separate_targets
from howmanygpus.plan.config.errors import ConfigError

SNAKEFILE = "rule all:\n    input:\n        'a'\n\n\nrule available:\n    input:\n        'b'\n"
RULES = "rule write_page:\n    output:\n        'page.html'\n"


@pytest.fixture(autouse=True)
def clone(tmp_path, monkeypatch):
    """Make a clone with the studies `digits` and `letters` in a file each, and `usual` in the default one."""
    (tmp_path / "workflow" / "rules").mkdir(parents=True)
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "workflow" / "rules" / "pages.smk").write_text(RULES)
    for name, study in (("mine", "digits"), ("more", "letters")):
        (tmp_path / f"{name}.yaml").write_text(f"studies: {{{study}: {{model: [small_cnn, resnet44]}}}}\n")
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "config.yaml").write_text("cores: all\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("studies: {usual: {model: [small_cnn, resnet44]}}\n")
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "sorted_words"),
    [
        ("--configfile mine.yaml digits", "digits --configfile mine.yaml"),
        ("--configfile mine.yaml more.yaml letters -n", "letters --configfile mine.yaml more.yaml -n"),
        ("--profile local --configfiles mine.yaml available", "available --profile local --configfiles mine.yaml"),
        ("--configfile mine.yaml results/tables/runs.json", "results/tables/runs.json --configfile mine.yaml"),
        ("--configfile mine.yaml write_page", "write_page --configfile mine.yaml"),
        ("--configfile mine.yaml digits_resnet44", "digits_resnet44 --configfile mine.yaml"),
        ("--logger rich available", "available --logger rich"),
        ("--config packed=true available", "available --config packed=true"),
        ("--quiet available", "available --quiet"),
        ("-q rules available --cores 1", "available -q rules --cores 1"),
        (
            "--rerun-triggers mtime digits --configfile mine.yaml",
            "digits --rerun-triggers mtime --configfile mine.yaml",
        ),
        ("--until write_page digits --configfile mine.yaml", "digits --until write_page --configfile mine.yaml"),
        ("--forcerun write_page available -n", "available --forcerun write_page -n"),
        ("all --configfile mine.yaml digits available", "digits available all --configfile mine.yaml"),
        ("--logger rich usual", "usual --logger rich"),
        ("-q rules usual_resnet44 -n", "usual_resnet44 -q rules -n"),
        ("--until write_page usual", "usual --until write_page"),
    ],
)
def test_targets_behind_values_of_options_are_moved_to_the_front(given, sorted_words):
    assert separate_targets(given.split()) == sorted_words.split()


@pytest.mark.parametrize(
    "given",
    [
        "digits --configfile mine.yaml more.yaml",
        "usual --profile local",
        "--profile local usual_small_cnn",
        "--configfile=mine.yaml digits",
        "--configfile mine.yaml -- digits",
        "digts --config studies={digts:{}}",
        "digts --snakefile Other",
        "digts --profile nowhere",
        "--until digits letters --configfiles mine.yaml more.yaml",
        "--until write_page results/page.html",
        "page.d/html -n results/page.html --profile=local --cores 1 all",
        "--until train -n --config a=1 b=2 --quiet rules progress",
        "",
    ],
)
def test_a_command_line_that_snakemake_understands_stays_as_it_is(given):
    assert separate_targets(given.split()) == given.split()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--configfile mine.yml", "--configfile: there is no file mine.yml; did you mean mine.yaml?"),
        ("--configfile=mine.yml", "--configfile: there is no file mine.yml; did you mean mine.yaml?"),
        (
            "--configfile mine.yaml other.json",
            "there is no file other.json; choose from config/config.yaml, mine.yaml, more.yaml",
        ),
        ("--configfile available", "there is no file available; available is a target: put it before the options"),
        ("--configfile usual", "there is no file usual; usual is a target: put it before the options, and name a"),
        ("--configfile mine.yaml usual", "--configfile: usual is neither an existing file nor a target; choose from"),
        ("usuall --profile local", "neither a rule nor a study of config/config.yaml; did you mean usual?"),
        ("--configfile mine.yaml digitz", "digitz is neither an existing file nor a target; did you mean digits?"),
        ("--logger rich richt", "--logger: richt is neither an existing value of this option nor a target"),
        (
            "digts -n --configfile mine.yaml",
            "digts is no target: it is neither a rule nor a study of mine.yaml; did you",
        ),
        ("--configfile mine.yaml -n digts", "nor a study of mine.yaml; did you mean digits?"),
        ("--configfile=mine.yaml --profile local -- digts", "nor a study of mine.yaml; did you mean digits?"),
        (
            "--cores 1 avialable",
            "avialable is no target: it is neither a rule nor a study of config/config.yaml; did you",
        ),
        (
            "--until write_page digts --configfile mine.yaml",
            "--until: digts is neither an existing value of this option",
        ),
        (
            "--rerun-triggers mtime cod",
            "--rerun-triggers: cod is neither an existing value of this option nor a target",
        ),
        ("--configfile mine.yaml xyz", "nor a target; choose from all, available, digits"),
    ],
)
def test_a_word_that_is_neither_a_file_nor_a_target_is_refused_with_the_remedy(given, message):
    with pytest.raises(ConfigError) as error:
        separate_targets(given.split())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"studies: [", "broken.yaml:1: did not find expected node content; correct this line or the one"),
        (b"studies:\n  s: 1\n\tt: 1\n", "broken.yaml:3: found a tab character that violates indentation"),
        (b"studies:\n  s: 1\n  s: 2\n", "broken.yaml:3: studies.s is given a second time, after line 2; keep one"),
        (b"studies:\n  caf\xe9: {}\n", "broken.yaml:2: the byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (b"studies: \x00", "broken.yaml:1: the character '\\x00' is not allowed in YAML; remove it"),
        (b"", "broken.yaml: the file is empty; begin it with `studies:`"),
        (b"studies: {s: 2024-02-30}", "broken.yaml:1: studies.s: 2024-02-30 cannot be read: day is out of range"),
        (b"- studies", "broken.yaml: the file has no keys at its top level; begin it with `studies:`"),
        (None, "broken.yaml: this is a folder; name a file in it"),
    ],
)
def test_a_config_file_that_cannot_be_read_is_refused_with_its_line(tmp_path, content, message):
    path = tmp_path / "broken.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        separate_targets(["--configfile", "broken.yaml", "all"])
    assert str(error.value).startswith(f"--configfile: {message}")
