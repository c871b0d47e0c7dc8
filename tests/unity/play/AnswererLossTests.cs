using System.Linq;
using Tau.Core.Tests;
using Unity.MLAgents;
using static Tau.Play.Model;

namespace Tau.Play
{
    /// <summary>Questions to a model while parts of the game go away.</summary>
    public sealed class AnswererLossTests
    {
        [Test]
        public void AnAgentThatSomebodyDestroyedIsReplacedByTheNextQuestion()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("ask " + Data.Train.PromptText[0]);
            stage.Play();
            UnityEngine.Object.Destroy(stage.Agents.Single().gameObject);
            stage.Play();
            console.Execute("ask " + Data.Train.PromptText[1]);
            stage.Play(2);
            Assert.Contains(Data.Train.AnswerText[1] + "   (right, ", Last(console));
            Assert.Equal(1, Academy.Instance.PreStepListeners);
            stage.AssertQuiet();
        }

        [Test]
        public void WhoeverWaitsWhileTheAgentIsDestroyedIsTold()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("evaluate");
            stage.Play(2);
            UnityEngine.Object.Destroy(stage.Agents.Single().gameObject);
            stage.Play(2);
            Assert.Equal(1, Mistakes(console, "was destroyed or switched off"));
            console.Execute("evaluate");
            Assert.Contains("held-out rows ...", Last(console));
            stage.AssertQuiet();
        }

        [Test]
        public void WhoeverWaitsWhileTheAnswererIsDestroyedIsTold()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("evaluate");
            stage.Play(2);
            UnityEngine.Object.Destroy(Answerer());
            stage.Play(2);
            Assert.Equal(1, Mistakes(console, "before its scene was closed"));
            Assert.Equal(0, stage.Agents.Length + Academy.Instance.PreStepListeners, "left behind");
            console.Execute("evaluate");
            Assert.Contains("held-out rows ...", Last(console));
            stage.AssertQuiet();
        }

        [Test]
        public void AnAnswerThatWasGivenIsNotTakenBackWhenTheGameEnds()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("ask " + Data.Train.PromptText[0]);
            stage.Play();
            stage.Quit();
            Assert.Contains("(right, ", Last(console));
            stage.AssertQuiet();
        }

        [Test]
        public void AResultThatWasGivenIsNotTakenBackWhenTheGameEnds()
        {
            var stage = new Stage();
            TauConsole console = Made(Perfect);
            console.Execute("evaluate");
            stage.Play(1, Data.Evaluation.Count);
            stage.Quit();
            Assert.Contains("without looking: ", Last(console));
            stage.AssertQuiet();
        }
    }
}
