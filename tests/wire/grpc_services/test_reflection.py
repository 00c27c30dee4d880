"""Server reflection in memory: what it answers, to whom, and how much of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from emulator.api import pb
from emulator.api.catalogue import BY_PATH, RPCS, SERVICES
from emulator.api.dispatch import Dispatcher
from emulator.errors import Code
from emulator.wire.grpc import reflection
from emulator.wire.grpc.reflection import PATHS, Reflection
from emulator.wire.grpc.server import GrpcServer
from tests.wire.grpc.memory import Lab, Served, framed

PUBSUB = "google/pubsub/v1/pubsub.proto"
INITIAL_WINDOW_SIZE = 4
METHOD_OPTIONS = "google.protobuf.MethodOptions"
HTTP_RULE = 72295728


@pytest.fixture
def served(lab: Lab) -> Served:
    return Served(lab, GrpcServer(Dispatcher({}), RPCS, Reflection(SERVICES).openers, wait_s=5))


@pytest.fixture(params=PATHS, ids=["v1", "v1alpha"])
def talk(request: pytest.FixtureRequest, served: Served) -> "Talk":
    return Talk(served, request.param)


class Talk:
    """One call of reflection."""

    def __init__(self, served: Served, path: str, window: int | None = None) -> None:
        self.served = served
        self.row = BY_PATH[path]
        self.peer = served.peer()
        if window is not None:
            self.peer.h2.update_settings({INITIAL_WINDOW_SIZE: window})
            self.peer.exchange()
        self.stream = self.peer.open(path)

    def encode(self, **question: Any) -> bytes:
        extension = question.get("file_containing_extension")
        message: Any = self.row.request()
        if extension is not None:
            message.file_containing_extension.containing_type, message.file_containing_extension.extension_number = (
                extension
            )
        else:
            message = self.row.request(**question)
        return framed(message.SerializeToString())

    @property
    def answers(self) -> list[Any]:
        self.served.lab.turn(3)
        self.peer.exchange()
        return [self.row.response.FromString(message) for message in self.peer.replies[self.stream].messages]

    def ask(self, **question: Any) -> Any:
        """The answer to one more question."""
        before = len(self.answers)
        self.peer.send(self.stream, self.encode(**question))
        (answer,) = self.answers[before:]
        return answer

    def files(self, **question: Any) -> list[str]:
        """The names of the files that a question is answered with."""
        answer = self.ask(**question)
        assert answer.WhichOneof("message_response") == "file_descriptor_response", answer
        return [file.name for file in parsed(answer)]

    def error(self, **question: Any) -> Any:
        answer = self.ask(**question)
        assert answer.WhichOneof("message_response") == "error_response"
        return answer.error_response


def parsed(answer: Any) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    return map(descriptor_pb2.FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto)


def needed_by(name: str) -> set[str]:
    """A file and all that it depends on, near and far, by the descriptor set."""
    files = {file.name: file for file in pb.FILES.file}
    return {name}.union(*(needed_by(dependency) for dependency in files[name].dependency))


@pytest.mark.rule("T15")
def test_every_service_of_the_catalogue_is_listed(talk: Talk) -> None:
    answer = talk.ask(list_services="*")

    assert [service.name for service in answer.list_services_response.service] == list(SERVICES)


@pytest.mark.rule("T15")
@pytest.mark.parametrize("name", [file.name for file in pb.FILES.file])
def test_a_file_comes_first_and_all_that_it_needs_behind_it(talk: Talk, name: str) -> None:
    names = talk.files(file_by_filename=name)

    assert names[0] == name
    assert sorted(names) == sorted(needed_by(name))


@pytest.mark.rule("T15")
def test_the_files_are_those_of_the_descriptor_set(talk: Talk) -> None:
    # As bytes: whether an annotation is an extension or an unknown field depends on what the process has imported.
    shipped = {file.name: file.SerializeToString(deterministic=True) for file in pb.FILES.file}

    for file in parsed(talk.ask(file_by_filename=PUBSUB)):
        assert file.SerializeToString(deterministic=True) == shipped[file.name]


@pytest.mark.rule("T15")
@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        ("google.pubsub.v1.Publisher", PUBSUB),
        ("google.pubsub.v1.Publisher.Publish", PUBSUB),
        ("google.pubsub.v1.Subscriber.StreamingPull", PUBSUB),
        ("google.pubsub.v1.Topic", PUBSUB),
        ("google.pubsub.v1.Topic.name", PUBSUB),
        ("google.pubsub.v1.Topic.LabelsEntry", PUBSUB),
        ("google.pubsub.v1.Topic.State", PUBSUB),
        ("google.pubsub.v1.Topic.ACTIVE", PUBSUB),
        ("google.pubsub.v1.PushConfig.OidcToken.audience", PUBSUB),
        ("google.pubsub.v1.Encoding", "google/pubsub/v1/schema.proto"),
        ("google.iam.v1.IAMPolicy.GetIamPolicy", "google/iam/v1/iam_policy.proto"),
        ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
        ("google.api.http", "google/api/annotations.proto"),
        ("grpc.health.v1.Health.Watch", "grpc/health/v1/health.proto"),
        ("grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"),
        ("grpc.reflection.v1alpha.ServerReflection", "grpc/reflection/v1alpha/reflection.proto"),
    ],
)
def test_a_symbol_is_found_in_its_file(talk: Talk, symbol: str, file: str) -> None:
    assert talk.files(file_containing_symbol=symbol)[0] == file


@pytest.mark.rule("T15")
def test_an_extension_is_found_in_its_file(talk: Talk) -> None:
    names = talk.files(file_containing_extension=(METHOD_OPTIONS, HTTP_RULE))

    assert names[0] == "google/api/annotations.proto"


@pytest.mark.rule("T15")
@pytest.mark.parametrize(("name", "numbers"), [(METHOD_OPTIONS, [HTTP_RULE]), ("google.pubsub.v1.Topic", [])])
def test_the_extensions_of_a_message(talk: Talk, name: str, numbers: list[int]) -> None:
    answer = talk.ask(all_extension_numbers_of_type=name)

    found = answer.all_extension_numbers_response
    assert answer.WhichOneof("message_response") == "all_extension_numbers_response"
    assert (found.base_type_name, list(found.extension_number)) == (name, numbers)


@pytest.mark.rule("T15")
@pytest.mark.parametrize(
    ("question", "named"),
    [
        ({"file_by_filename": "nope.proto"}, "file in the descriptions of this server: nope.proto"),
        ({"file_containing_symbol": "google.pubsub.v1.Nope"}, "symbol in the descriptions of this server: google.pub"),
        ({"file_containing_symbol": "google.pubsub.v1.Publisher.Nope"}, "Publisher.Nope"),
        ({"file_containing_symbol": "google.pubsub.v1"}, "google.pubsub.v1"),
        ({"file_containing_symbol": ""}, "symbol"),
        (
            {"file_containing_extension": ("google.pubsub.v1.Nope", 1)},
            "message in the descriptions of this server: goo",
        ),
        (
            {"file_containing_extension": (METHOD_OPTIONS, 1)},
            f"extension in the descriptions of this server: {METHOD_OPTIONS}[1]",
        ),
        ({"file_containing_extension": (METHOD_OPTIONS, -1)}, f"{METHOD_OPTIONS}[-1]"),
        ({"all_extension_numbers_of_type": "google.pubsub.v1.Nope"}, "message in the descriptions of this server: goo"),
        ({"all_extension_numbers_of_type": "google.pubsub.v1.Publisher"}, "google.pubsub.v1.Publisher"),
    ],
)
def test_what_there_is_not_is_not_found_and_the_call_goes_on(talk: Talk, question: dict[str, Any], named: str) -> None:
    error = talk.error(**question)

    assert (error.error_code, named in error.error_message) == (Code.NOT_FOUND, True)
    assert talk.files(file_by_filename=PUBSUB)[0] == PUBSUB


@pytest.mark.rule("T15")
def test_a_question_without_content_is_invalid(talk: Talk) -> None:
    assert talk.error(host="h").error_code == Code.INVALID_ARGUMENT


@pytest.mark.rule("T15")
def test_an_answer_repeats_its_question(talk: Talk) -> None:
    answer = talk.ask(host="h", file_by_filename="nope")

    assert answer.valid_host == "h"
    assert answer.original_request == talk.row.request(host="h", file_by_filename="nope")


@pytest.mark.rule("T15")
def test_what_a_caller_has_is_not_sent_again_but_for_what_it_asks(talk: Talk) -> None:
    first = talk.files(file_containing_symbol="google.pubsub.v1.Publisher")
    again = talk.files(file_containing_symbol="google.pubsub.v1.Topic")
    other = talk.files(file_by_filename="google/iam/v1/iam_policy.proto")

    assert again == [PUBSUB]
    assert not set(first) & set(other)
    assert set(first) | set(other) == needed_by(PUBSUB) | needed_by("google/iam/v1/iam_policy.proto")


@pytest.mark.rule("T15")
def test_another_call_starts_anew(served: Served) -> None:
    first, second = (Talk(served, PATHS[0]).files(file_by_filename=PUBSUB) for _ in range(2))

    assert first == second


@pytest.mark.rule("T15")
@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: rpc.path)
def test_every_method_can_be_called_knowing_only_what_reflection_tells(served: Served, rpc: Any) -> None:
    answer = Talk(served, PATHS[0]).ask(file_containing_symbol=f"{rpc.service}.{rpc.method}")
    pool = descriptor_pool.DescriptorPool()
    for file in reversed(list(in_order(parsed(answer)))):
        pool.Add(file)

    method = pool.FindServiceByName(rpc.service).methods_by_name[rpc.method]

    assert (method.client_streaming, method.server_streaming) == (rpc.client_streaming, rpc.server_streaming)
    for theirs, ours in ((method.input_type, rpc.request.DESCRIPTOR), (method.output_type, rpc.response.DESCRIPTOR)):
        assert theirs.full_name == ours.full_name
        assert [(f.name, f.number, f.type) for f in theirs.fields] == [(f.name, f.number, f.type) for f in ours.fields]


def in_order(files: Iterator[Any]) -> Iterator[Any]:
    """Dependents before what they depend on."""
    left = {file.name: file for file in files}
    while left:
        free = [name for name in left if not any(name in file.dependency for file in left.values())]
        yield from (left.pop(name) for name in free)


class TestAsManyQuestionsAsTheyCome:
    """Questions are small, answers are large: a caller is answered as fast as it reads, in turn with others."""

    @pytest.mark.rule("T15")
    def test_questions_sent_together_are_answered_in_order_then_the_call_ends(self, talk: Talk) -> None:
        names = [file.name for file in pb.FILES.file]

        talk.peer.send(talk.stream, b"".join(talk.encode(file_by_filename=name) for name in names), end=True)

        assert [answer.original_request.file_by_filename for answer in talk.answers] == names
        assert talk.peer.replies[talk.stream].status == Code.OK

    @pytest.mark.rule("T15")
    def test_a_call_without_questions_ends_well(self, talk: Talk) -> None:
        talk.peer.send(talk.stream, b"", end=True)

        assert (talk.answers, talk.peer.replies[talk.stream].status) == ([], Code.OK)

    @pytest.mark.rule("T15", "T34")
    def test_a_turn_of_the_loop_answers_so_much_and_the_next_goes_on(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reflection, "_BURST_BYTES", 1)
        talk = Talk(served, PATHS[0])

        talk.peer.send(talk.stream, talk.encode(list_services="") * 5, end=True)

        counts = [len(talk.peer.replies[talk.stream].messages)]
        while not talk.peer.replies[talk.stream].ended:
            served.lab.turn()
            talk.peer.exchange()
            counts.append(len(talk.peer.replies[talk.stream].messages))
        assert sorted(set(counts)) == [1, 2, 3, 4, 5]
        assert talk.peer.replies[talk.stream].status == Code.OK

    @pytest.mark.rule("T15", "T33")
    @pytest.mark.parametrize("path", PATHS)
    def test_one_that_does_not_read_is_not_answered_into_memory(self, served: Served, path: str) -> None:
        talk = Talk(served, path, window=100)
        talk.peer.credits = False

        for _ in range(50):
            talk.peer.send(talk.stream, talk.encode(file_by_filename=PUBSUB))

        assert len(talk.peer.replies[talk.stream].data) == 100
        (stream,) = served.connections[0]._http2._streams.values()
        assert stream.queued_bytes < 100_000
        talk.peer.h2.increment_flow_control_window(10_000_000, talk.stream)
        talk.peer.h2.increment_flow_control_window(10_000_000)
        served.lab.until(lambda: len(talk.answers) == 50)

    @pytest.mark.rule("T15", "T8")
    def test_who_asks_on_without_reading_is_cut_off(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reflection, "_WAITING_MAX_BYTES", 1_000)
        talk = Talk(served, PATHS[0], window=0)

        for _ in range(20):
            if not talk.peer.replies[talk.stream].ended:
                talk.peer.send(talk.stream, talk.encode(list_services=""))

        assert talk.peer.replies[talk.stream].status == Code.RESOURCE_EXHAUSTED
        assert served.is_empty()

    @pytest.mark.rule("T15")
    def test_one_that_has_asked_all_is_answered_once_it_reads(self, served: Served) -> None:
        talk = Talk(served, PATHS[0], window=0)
        talk.peer.send(talk.stream, talk.encode(list_services="") * 3, end=True)
        assert not talk.peer.replies[talk.stream].ended

        talk.peer.h2.increment_flow_control_window(100_000, talk.stream)

        assert len(talk.answers) == 3
        assert talk.peer.replies[talk.stream].status == Code.OK

    @pytest.mark.rule("T15")
    def test_questions_that_are_answered_may_be_many(self, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reflection, "_WAITING_MAX_BYTES", 1_000)

        for _ in range(20):
            talk.ask(list_services="")

    @pytest.mark.rule("T15")
    def test_one_large_question_is_answered(self, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reflection, "_WAITING_MAX_BYTES", 1_000)

        assert talk.error(file_containing_symbol="x" * 10_000).error_code == Code.NOT_FOUND

    @pytest.mark.rule("T15")
    def test_nothing_is_left_of_a_caller_that_has_gone(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reflection, "_BURST_BYTES", 1)
        talk = Talk(served, PATHS[0])
        talk.peer.send(talk.stream, talk.encode(list_services="") * 10)

        talk.peer.cancel(talk.stream)
        served.lab.turn(20)

        assert served.is_empty()
        assert len(talk.peer.replies[talk.stream].messages) == 1


def test_they_say_how_they_stand(served: Served) -> None:
    talk = Talk(served, PATHS[0])
    talk.ask(file_by_filename="google/protobuf/empty.proto")
    (stream,) = served.connections[0]._http2._streams.values()
    call: Any = stream.call

    assert repr(call._conversation) == "<_Questions waiting=0 sent=1>"
    assert repr(Reflection(SERVICES)) == f"<Reflection services={len(SERVICES)}>"
