"""What `mog init` says of generated questions."""

from shared import called

from mog_assets import config


def test_what_the_configuration_says_of_generated_questions_makes_them(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Hens\n\nFive hens.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert called("init", "docs").exit_code == 0
    text = (tmp_path / "mog.yaml").read_text(encoding="utf-8")
    head = text.split("# Further settings")[0]
    generated = "\n".join(
        line[2:] for line in head.splitlines() if line.startswith(("# generation", "# question_sets: "))
    )
    (tmp_path / "mog.yaml").write_text(text + generated, encoding="utf-8")
    assert config.load(tmp_path / "mog.yaml").question_sets["made"].source == "generated"
