using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>The console's commands, their sentences, and its keys.</summary>
    public sealed class ConsoleTests
    {
        [Test]
        public void TrainingIsStartedShownAndCancelled()
        {
            var stage = new Stage();
            TauConsole console = Made();
            console.Execute("training agent tau tau.json --agents 3 --max-concurrent 2 --decisions 40");
            Assert.Equal("Training; `training status` shows how it goes.", Last(console));
            stage.Play(4);
            console.Execute("training status");
            Assert.Contains("peak concurrency 2", Last(console));
            Assert.Contains(" 8 ", console.Lines[console.Lines.Count - 2].Text);
            console.Execute("Training CANCEL");
            Assert.True(!stage.Manager.IsRunning, "still running");
            Assert.Contains("cancelled", Last(console));
            stage.AssertQuiet();
        }

        [Test]
        public void TheReportComesByItselfWhenTrainingIsThrough()
        {
            var stage = new Stage();
            TauConsole console = Made();
            console.Execute("training agent tau tau.json --agents 2 --decisions 3");
            stage.Play(6);
            Assert.Equal(1, console.Lines.Count(line => line.Text.StartsWith("peak concurrency 2")));
        }

        [Test]
        public void MistakesAreShownInRedAndNotThrown()
        {
            var stage = new Stage();
            TauConsole console = Made();
            AssertMistake(console, "trainig status", "did you mean `training`?");
            AssertMistake(console, "training cancel", "nothing to cancel");
            AssertMistake(console, "training agent tau none.json --agents 2", "There is no data file");
            AssertMistake(console, "training agent tau tau.json --agents 0", "--agents");
            AssertMistake(console, "ask what?", "There is no trained model");
            AssertMistake(console, "evaluate", "There is no trained model");
            console.Execute("training agent tau tau.json --agents 2");
            AssertMistake(console, "training agent tau tau.json --agents 2", "Training is running already");
            stage.AssertQuiet();
        }

        [Test]
        public void HelpNamesEveryCommandAndAnEmptyLineIsNothing()
        {
            TauConsole console = MadeOn(new Stage());
            console.Execute("  ");
            Assert.Equal(0, console.Lines.Count);
            console.Execute("help");
            string text = string.Join("\n", console.Lines.Select(line => line.Text));
            Assert.Contains(HelpCommand.AllText, text);
            Assert.Equal(ConsoleText.Kind.Typed, console.Lines[0].Kind);
        }

        [Test]
        public void StatusBeforeAnythingWasStartedSaysSo()
        {
            TauConsole console = MadeOn(new Stage());
            console.Execute("training status");
            Assert.Equal("Nothing was started.", Last(console));
        }

        [Test]
        public void WhileItIsClosedOneLineTellsHowTrainingGoes()
        {
            var stage = new Stage();
            TauConsole console = Made();
            stage.Play();
            Assert.Equal("", console.Headline);
            console.Execute("training agent tau tau.json --agents 3");
            stage.Play(3);
            Assert.Contains("Tau: 3 pairs, 9 decisions, mean reward ", console.Headline);
            stage.Press(KeyCode.F1);
            stage.Play();
            Assert.Equal("", console.Headline, "the headline of an open console");
        }

        [Test]
        public void KeysOpenTypeEnterRecallAndClose()
        {
            var stage = new Stage();
            TauConsole console = Made();
            stage.Press(KeyCode.BackQuote, '`');
            Assert.True(console.IsOpen, "not open");
            stage.Type("help");
            Assert.True(!GUI.Drawn.Contains("`help"), "the key's own character was typed");
            stage.Press(KeyCode.Return);
            Assert.Equal("> help", console.Lines[0].Text);
            Assert.True(GUI.Drawn.Contains("> help"), "not drawn");
            stage.Press(KeyCode.UpArrow);
            stage.Press(KeyCode.KeypadEnter);
            Assert.Equal(2, console.Lines.Count(line => line.Text == "> help"), "lines that were typed");
            stage.Press(KeyCode.BackQuote, '`');
            Assert.True(!console.IsOpen, "still open");
            Assert.True(!GUI.Drawn.Contains("> help"), "still drawn");
        }

        [Test]
        public void AConsoleKeepsItsLast500Lines()
        {
            TauConsole console = MadeOn(new Stage());
            for (var i = 0; i < 600; i++)
            {
                console.Print("line " + i);
            }
            Assert.Equal(500, console.Lines.Count);
            Assert.Equal("line 599", Last(console));
        }

        [Test]
        public void WhereNobodyWatchesItIsOffAndStillDoesWhatItIsTold()
        {
            var stage = new Stage();
            Application.isBatchMode = true;
            TauConsole console = Made();
            Assert.True(!console.enabled, "it draws");
            console.Execute("training agent tau tau.json --agents 1 --decisions 2");
            stage.Play(4);
            Assert.Equal(2L, stage.Manager.Report.Decisions);
        }

        [Test]
        public void AManagerThatIsGoneIsReplaced()
        {
            var stage = new Stage();
            TauConsole console = Made();
            console.Execute("training agent tau tau.json --agents 1");
            UnityEngine.Object.Destroy(stage.Manager);
            stage.Play(2);
            console.Execute("training agent tau tau.json --agents 2 --decisions 3");
            stage.Play(6);
            Assert.Equal(6L, stage.Manager.Report.Decisions);
            Assert.Equal(1, console.Lines.Count(line => line.Text.StartsWith("peak concurrency 2")));
            stage.AssertQuiet();
        }

        private static void AssertMistake(TauConsole console, string line, string part)
        {
            console.Execute(line);
            Assert.Contains(part, Last(console));
            Assert.Equal(ConsoleText.Kind.Mistake, console.Lines.Last().Kind);
        }

        private static TauConsole MadeOn(Stage stage)
        {
            Assert.True(stage.Console == null, "there is one");
            return Made();
        }

        private static TauConsole Made()
        {
            return TauSceneBuilder.Build(SceneKind.Tau).GetComponent<TauConsole>();
        }

        private static string Last(TauConsole console)
        {
            return console.Lines[console.Lines.Count - 1].Text;
        }
    }
}
