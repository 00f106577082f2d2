from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import firthshot.backbones.encoders as encoders
from firthshot.backbones.embed import EncoderMark
from firthshot.cli import app
from firthshot.errors import FirthshotError
from firthshot.estimators import load_model
from firthshot.own_data import Columns, Embedder, embed_lines, read_examples
from own_data.small_encoders import COLOURS, TEXTS, WORDS


def run(*words: Any, text: str | bytes | None = None) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words], input=text)
    if isinstance(result.exception, FirthshotError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def rows_of(output: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(output)))


def test_a_folder_of_pictures_is_fitted_and_a_picture_predicted(photos: Path) -> None:
    shown = run("fit", photos, "--model", "pets.firth").output
    assert "15 pictures, 3 classes" in shown
    assert "efficientnet-lite0" in shown
    assert "new.jpg" in shown
    model = load_model("pets.firth")
    assert (model.encoder_name_, model.encoder_fingerprint_) == ("efficientnet-lite0", "f-image")
    Image.new("RGB", (30, 20), COLOURS["green"]).save("new.png")
    Image.new("RGB", (5, 9), COLOURS["red"]).save("other.png")
    found = rows_of(run("predict", "pets.firth", "new.png", "other.png").stdout)
    assert [(row["picture"], row["prediction"]) for row in found] == [
        ("new.png", "green"),
        ("other.png", "red"),
    ]


def test_a_command_loads_its_encoder_once(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads, load = [], encoders.load_encoder

    def count(spec: str, **options: Any) -> Any:
        loads.append(spec)
        return load(spec, **options)

    monkeypatch.setattr(encoders, "load_encoder", count)
    run("fit", photos, "--model", "pets.firth")
    assert loads == ["efficientnet-lite0"]
    paths = sorted(photos.rglob("*.png"))
    twenty = [*paths, *paths[:5]]
    assert len(rows_of(run("predict", "pets.firth", *twenty).stdout)) == len(twenty) == 20
    assert loads == ["efficientnet-lite0"] * 2


def test_a_picture_is_named_as_it_was_given(photos: Path) -> None:
    run("fit", photos, "--model", "pets.firth")
    given = [next((photos / name).iterdir()).as_posix() for name in ("blue", "red")]
    found = rows_of(run("predict", "pets.firth", *given).stdout)
    assert [row["picture"] for row in found] == given
    assert "file" not in found[0]


def test_folders_are_predicted_with_and_without_classes(photos: Path) -> None:
    run("fit", photos, "--model", "pets.firth")
    result = run("predict", "pets.firth", photos)
    assert len(rows_of(result.stdout)) == 15
    assert all(Path(row["picture"]).is_file() for row in rows_of(result.stdout))
    assert "Accuracy 100.0 %" in result.stderr
    result = run("predict", "pets.firth", photos / "blue")  # a flat folder has no labels
    assert {row["prediction"] for row in rows_of(result.stdout)} == {"blue"}
    assert "Accuracy" not in result.stderr


def test_texts_are_fitted_and_predicted_from_a_table_and_from_lines(intents: Path) -> None:
    shown = run("fit", intents, "--model", "intents.firth").output
    assert "12 texts, 3 classes" in shown
    Path("new.csv").write_text("text\nlots of rain\nbread and bread\n")
    found = rows_of(run("predict", "intents.firth", "new.csv").stdout)
    assert [(row["text"], row["prediction"]) for row in found] == [
        ("lots of rain", "about rain"),
        ("bread and bread", "about bread"),
    ]
    found = rows_of(run("predict", "intents.firth", "-", text="my card\n").stdout)
    assert (found[0]["text"], found[0]["prediction"]) == ("my card", "about card")


def test_the_column_of_texts_can_be_named_and_ids_are_kept(tmp_path: Path) -> None:
    Path("t.csv").write_text("id,said,by,label\n7,rain,ann,a\n8,rain rain,bob,a\n9,card,cy,b\n")
    with pytest.raises(FirthshotError, match="leave it out, or name it as id or label"):
        read_examples("t.csv")  # two columns of words: taken for features
    examples = read_examples("t.csv", Columns(text="said"))
    assert examples.ids is not None
    assert examples.ids.tolist() == ["7", "8", "9"]
    assert examples.labels is not None
    assert examples.labels.tolist() == ["a", "a", "b"]
    np.testing.assert_array_equal(examples.features[:, 1], [1, 2, 0])


def test_tables_of_numbers_are_still_features(tmp_path: Path) -> None:
    Path("n.csv").write_text("x,label\n1.5,a\n2.5,b\n")
    examples = read_examples("n.csv")
    assert examples.fingerprint is None
    assert examples.features.tolist() == [[1.5], [2.5]]
    with pytest.raises(FirthshotError, match=r"leave out encoder\.$"):
        read_examples("n.csv", embedder=Embedder("efficientnet-lite0"))
    with pytest.raises(FirthshotError, match=r"leave out encoder\.$"):
        run("fit", "n.csv", "--model", "m.firth", "--encoder", "net.ts?size=32")


def test_a_model_refuses_another_encoder_and_other_inputs(photos: Path, intents: Path) -> None:
    run("fit", photos, "--model", "pets.firth")
    with pytest.raises(FirthshotError, match="give the encoder it was fitted with"):
        run("predict", "pets.firth", photos, "--encoder", "efficientnet-lite1")
    with pytest.raises(FirthshotError, match="takes pictures, but the source holds texts"):
        run("predict", "pets.firth", intents)
    Path("n.csv").write_text("x,y,z,label\n1,2,3,a\n2,1,3,b\n1,1,3,a\n2,2,4,b\n")
    run("fit", "n.csv", "--model", "numbers.firth")
    with pytest.raises(FirthshotError, match="but the model was fitted to features"):
        run("predict", "numbers.firth", photos)


def test_a_picture_for_a_model_of_texts(photos: Path, intents: Path) -> None:
    run("fit", intents, "--model", "intents.firth")
    words = "takes texts, but the source holds pictures: give texts, or fit another model"
    with pytest.raises(FirthshotError, match=words):
        run("predict", "intents.firth", photos / "red" / "0.png")


def test_one_picture_is_nothing_to_fit(photos: Path) -> None:
    with pytest.raises(FirthshotError, match="one picture: give a folder of class folders"):
        run("fit", photos / "red" / "0.png", "--model", "m.firth")
    with pytest.raises(FirthshotError, match="no class folders"):
        run("fit", photos / "red", "--model", "m.firth")


def test_rows_know_what_the_source_holds(photos: Path, intents: Path) -> None:
    Path("n.csv").write_text("x,label\n1.5,a\n2.5,b\n")
    kinds = [read_examples(str(source)).kind for source in (photos, intents, "n.csv")]
    assert kinds == ["image", "text", "features"]
    mark = EncoderMark("minilm-l6-v2", TEXTS.fingerprint)
    assert embed_lines("rain\n", Embedder(mark=mark)).kind == "text"


def test_a_picture_from_standard_input(photos: Path) -> None:
    run("fit", photos, "--model", "m.firth")
    found = run("predict", "m.firth", "-", text=(photos / "red" / "0.png").read_bytes())
    (row,) = rows_of(found.stdout)
    assert (row["picture"], row["prediction"]) == ("Standard input", "red")
    with pytest.raises(FirthshotError, match="neither a picture nor text in UTF-8"):
        run("predict", "m.firth", "-", text=b"\xff\xfe no picture")


def test_texts_in_another_encoding_are_refused_in_a_sentence(intents: Path) -> None:
    run("fit", intents, "--model", "m.firth")
    with pytest.raises(FirthshotError, match="Standard input is not in UTF-8: convert it"):
        run("predict", "m.firth", "-", text=b"caf\xe9 music\n")


def test_the_label_of_texts_is_remembered_and_asked_for(intents: Path) -> None:
    run("fit", intents, "--model", "m.firth")
    assert load_model("m.firth").label_name_ == "label"
    with pytest.raises(FirthshotError, match="no column 'intent' of labels"):
        run("predict", "m.firth", intents, "--label", "intent")


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    """Return a table whose texts are in the column subject; its column text says otherwise."""
    rows = [
        (f"n{n}", f"{word} {word * (n % 2)}", f"{WORDS[k - 1]} as a lure", f"about {word}")
        for k, word in enumerate(WORDS)
        for n in range(4)
    ]
    with (tmp_path / "mails.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "subject", "text", "label"), *rows])
    run("fit", tmp_path / "mails.csv", "--text", "subject", "--model", "mails.firth")
    return tmp_path / "mails.csv"


def test_a_model_remembers_its_text_column(mails: Path) -> None:
    assert load_model("mails.firth").text_name_ == "subject"
    assert "Accuracy 100.0 %" in run("predict", "mails.firth", mails).stderr
    other = run("predict", "mails.firth", mails, "--text", "text").stderr
    assert "Accuracy 0.0 %" in other
    assert [path.name for path in Path().glob(".mails*")] == []


def test_a_table_without_the_text_column_of_the_model(mails: Path) -> None:
    Path("one.csv").write_text("id,price,body\nx,1.5,rain\n")
    result = run("predict", "mails.firth", "one.csv")
    assert rows_of(result.stdout)[0]["prediction"] == "about rain"
    assert result.stderr.startswith("Note: one.csv has no column 'subject', which held")
    assert "'body', its only column of words" in result.stderr
    Path("two.csv").write_text("text,body\ncard,rain\n")
    with pytest.raises(FirthshotError, match=r"no column 'subject'.* but 'text', 'body': name the"):
        run("predict", "mails.firth", "two.csv")
    found = rows_of(run("predict", "mails.firth", "two.csv", "--text", "body").stdout)
    assert found[0]["prediction"] == "about rain"


def save_without_text_column(intents: Path) -> None:
    """Write a model as it is now, and one as before text columns had names."""
    run("fit", intents, "--model", "new.firth")
    model = load_model("new.firth")
    model.text_name_ = None
    model.save("old.firth")


def test_models_from_before_text_columns_had_names_still_load(intents: Path) -> None:
    save_without_text_column(intents)
    assert load_model("old.firth").text_name_ is None
    assert "Accuracy 100.0 %" in run("predict", "old.firth", intents).stderr


@pytest.mark.parametrize("name", ["new.firth", "old.firth"])
def test_texts_that_name_themselves_are_embedded_and_ids_are_not(intents: Path, name: str) -> None:
    save_without_text_column(intents)
    Path("t.csv").write_text("id,text,label\ncard,rain,about rain\n")
    found = rows_of(run("predict", name, "t.csv", "--id", "text").stdout)
    assert (found[0]["text"], found[0]["prediction"]) == ("rain", "about rain")
    Path("n.csv").write_text("id,number,text\ncard,bread,rain\n")
    found = rows_of(run("predict", name, "n.csv", "--id", "number").stdout)
    assert (found[0]["number"], found[0]["prediction"]) == ("bread", "about rain")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('{"subject": "rain", "text": "card"}\n{"subject": "bread", "text": "card"}\n', None),
        ('[{"id": "a", "subject": "rain"},\n {"id": "b", "subject": "bread"}]', ["a", "b"]),
        ("subject\nrain\n\nbread\n", None),
        ('id,text,subject\r\na,card,rain\r\nb,card,"bread, bread"\r\n', ["a", "b"]),
        ("subject;text\nrain;card\nbread;card\n", None),
        ("rain\nbread\n", None),
        ("{rain}, card\nbread\n", None),
        ("rain, {not json\nbread\n", None),
    ],
)
def test_standard_input_of_texts_is_objects_a_table_or_sentences(
    mails: Path, text: str, ids: list[str] | None
) -> None:
    found = rows_of(run("predict", "mails.firth", "-", text=text).stdout)
    assert len(found) == 2
    assert found[1]["prediction"] == "about bread"
    assert ids is None or [row["id"] for row in found] == ids
    if "{rain}" not in text:
        assert found[0]["prediction"] == "about rain"


def test_labels_in_standard_input_count_and_sentences_stay_sentences(mails: Path) -> None:
    told = run("predict", "mails.firth", "-", text="subject,label\nrain,about rain\n").stderr
    assert "Accuracy 100.0 %" in told
    found = rows_of(run("predict", "mails.firth", "-", text="subject, rain\nbread\n").stdout)
    assert [row["text"] for row in found] == ["subject, rain", "bread"]
    for bad, words in (
        ("subject\n", "no rows"),
        ('{"subject": "rain"}\nbread\n', "no valid JSON .line 2"),
        ('{"subject": "rain"}\n[1]\n', "mixes objects"),
        ("subject,subject\nrain,card\n", "more than one column called 'subject'"),
        ("id,subject\na,b,c\n", "more cells than the header"),
    ):
        with pytest.raises(FirthshotError, match=words):
            run("predict", "mails.firth", "-", text=bad)


def test_a_column_has_one_role(mails: Path) -> None:
    for words, sentence in (
        (("--text", "text", "--label", "text"), "'text' cannot be both text and label"),
        (("--label", "label", "--drop", "label"), "'label' cannot be both label and left out"),
        (("--text", "subject", "--drop", "subject"), "'subject' cannot be both text and left out"),
    ):
        for command in (("fit", mails, "--model", "m.firth"), ("predict", "mails.firth", mails)):
            with pytest.raises(FirthshotError, match=sentence):
                run(*command, *words)
    with pytest.raises(FirthshotError, match="'subject' cannot be both text and left out"):
        run("predict", "mails.firth", mails, "--drop", "subject")
    assert not Path("m.firth").exists()


def test_pictures_that_are_not_there(photos: Path) -> None:
    Path("n.csv").write_text("x,y,label\n1,2,a\n2,1,b\n1,1,a\n2,2,b\n")
    run("fit", "n.csv", "--model", "numbers.firth")
    run("fit", photos, "--model", "pets.firth")
    Path("folder").mkdir()
    Path("folder", "n.csv").write_text("x,y\n1,2\n")
    for model in ("numbers.firth", "pets.firth"):
        with pytest.raises(FirthshotError, match=r"^There is no file nothere\.jpg: check the path"):
            run("predict", model, "nothere.jpg")
        with pytest.raises(FirthshotError, match=r"^folder holds no pictures"):
            run("predict", model, "folder")
