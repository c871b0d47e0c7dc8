using System.Collections.Generic;
using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using Unity.InferenceEngine;
using Unity.MLAgents;
using UnityEngine;
using static Tau.Play.Model;

namespace Tau.Play
{
    /// <summary>Questions to a trained model, by the console.</summary>
    public sealed class AnswererTests
    {
        [Test]
        public void AKnownQuestionIsAnsweredInTheNextStep()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("ask " + Data.Evaluation.PromptText[0]);
            stage.Play();
            Assert.Contains(Data.Evaluation.AnswerText[0] + "   (right, ", Last(console));
            Assert.Contains(" ms)", Last(console));
            stage.AssertQuiet();
        }

        [Test]
        public void AWrongAnswerIsToldWithTheRightOne()
        {
            var stage = new Stage();
            int right = Data.Evaluation.AnswerIndex[0];
            int wrong = right == 0 ? 1 : 0;
            TauConsole console = Made(said => Targets[wrong]);
            console.Execute("ask " + Data.Evaluation.PromptText[0]);
            stage.Play();
            Assert.Contains(Data.Answers[wrong] + "   (wrong, it is " + Data.Answers[right], Last(console));
        }

        [Test]
        public void AnUnknownQuestionIsAnsweredByTheClosestKnownOneWhichIsNamed()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            string known = Data.Train.PromptText[5];
            console.Execute("ask " + known + " please");
            stage.Play();
            string[] lines = console.Lines.Select(line => line.Text).ToArray();
            Assert.Contains("no text encoder", lines[lines.Length - 3]);
            Assert.Equal(known, lines[lines.Length - 2]);
            Assert.Contains(Data.Train.AnswerText[5], Last(console));
        }

        [Test]
        public void QuestionsAreAnsweredInTheirOrderOneAStep()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            for (var i = 0; i < 3; i++)
            {
                console.Execute("ask " + Data.Train.PromptText[i]);
            }
            stage.Play(1, 3);
            Assert.Sequence(
                Data.Train.AnswerText.Take(3),
                console.Lines.Where(line => line.Text.EndsWith("ms)")).Select(line => line.Text.Split(' ')[0]));
        }

        [Test]
        public void EveryHeldOutRowIsShownOnceAndScored()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("evaluate");
            Assert.Contains(Data.Evaluation.Count + " held-out rows ...", Last(console));
            stage.Play(3);
            Assert.Contains("Tau: 3 of " + Data.Evaluation.Count, console.Headline);
            console.Execute("evaluate");
            Assert.Contains("An evaluation runs already", Last(console));
            stage.Play(1, Data.Evaluation.Count);
            Assert.Contains(
                "right 100.0 %, mean reward +1.000", console.Lines[console.Lines.Count - 2].Text);
            Assert.True(!Answerer().IsBusy, "still busy");
            console.Execute("evaluate");
            Assert.Contains("held-out rows ...", Last(console));
            stage.AssertQuiet();
        }

        [Test]
        public void TheModelIsNotShownTheTarget()
        {
            var stage = new Stage();
            var seen = new List<AgentMessage>();
            TauConsole console = Made(said =>
            {
                seen.Add(said);
                return Perfect(said);
            });
            Answerer().Configure(TauOptions.Parse(new[] { "--tau-target-sensor" }));
            console.Execute("evaluate");
            stage.Play(5);
            Assert.True(seen.Count > 0 && seen.All(said => said.Of("target").All(value => value == 0f)));
        }

        [Test]
        public void AModelThatDoesNotLoadFailsEveryQuestionAndAnotherOneIsTriedLater()
        {
            var stage = new Stage();
            TauConsole console = Made(null);
            console.Execute("ask " + Data.Train.PromptText[0]);
            console.Execute("evaluate");
            stage.Play(3);
            Assert.Equal(2, Mistakes(console, "could not be loaded, or it does not fit profile tau3"));
            Assert.True(!Answerer().IsBusy, "still busy");
            Resources.Packed[TauAnswerer.ModelResource] = new ModelAsset { Answer = Perfect };
            console.Execute("ask " + Data.Train.PromptText[0]);
            stage.Play();
            Assert.Contains("(right, ", Last(console));
        }

        [Test]
        public void AModelOfAnotherShapeIsToldOnceAndStopsNothing()
        {
            var stage = new Stage();
            TauConsole console = Made(said => new float[384]);
            console.Execute("ask " + Data.Train.PromptText[0]);
            stage.Play(4);
            Assert.Equal(1, Mistakes(console, "does not fit profile tau3"));
            Assert.Equal(1, Debug.Of("Exception").Length, "exceptions of the model");
        }

        [Test]
        public void AnOutputThatIsNoNumberIsAMistake()
        {
            var stage = new Stage();
            TauConsole console = Made(said => new[] { float.NaN, 0f, 0f });
            console.Execute("ask " + Data.Train.PromptText[0]);
            stage.Play(3);
            Assert.Equal(ConsoleText.Kind.Mistake, console.Lines.Last().Kind);
            Assert.True(!Answerer().IsBusy, "still busy");
            stage.AssertQuiet();
        }

        [Test]
        public void ItAnswersAlsoWhileATrainerIsConnectedAndTrains()
        {
            Stage stage = Stage.WithTrainer();
            TauConsole console = Made(Perfect);
            console.Execute("training agent tau tau.json --agents 2");
            console.Execute("ask " + Data.Train.PromptText[0]);
            stage.Play();
            Assert.Contains("(right, ", Last(console));
            Assert.Equal(2, stage.Trainer.Said.Count, "the model's agent is none of the trainer's");
        }
    }
}
