using System;
using System.Collections.Generic;
using System.Linq;
using Tau.Core;
using Unity.MLAgents;
using UnityEngine;
using UnityEngine.SceneManagement;

namespace Tau
{
    /// <summary>
    /// Starts the game when Play is pressed or a player starts: in a scene with a <see cref="TauScene"/>, in an empty
    /// scene, and in any scene if the command line has a flag that starts with <c>--tau-</c>. Other scenes are left
    /// alone.
    /// </summary>
    public static class TauBootstrap
    {
        private const string Flags = "--tau-";
        private const string SceneFlag = "--tau-scene";
        private const string TrainingHint =
            "No trainer is connected. Start one with `tau-train parallel --env editor` and press Play again,\n"
            + "or let agents act at random here: `training agent tau tau.tau --agents 4`. `help` lists the commands.";
        private const string InferenceHint = "Type `ask <question>`, or `evaluate` for all held-out questions.";

        [RuntimeInitializeOnLoadMethod(RuntimeInitializeLoadType.AfterSceneLoad)]
        private static void Begin()
        {
            Begin(Environment.GetCommandLineArgs());
        }

        /// <summary>Starts the game with this command line.</summary>
        internal static void Begin(IReadOnlyList<string> arguments)
        {
            Scene opened = SceneManager.GetActiveScene();
            TauScene marked = SceneSearch.Find<TauScene>(opened);
            if (marked == null && !HasFlag(arguments, null) && !SceneSearch.IsEmpty(opened))
            {
                return;
            }
            Application.runInBackground = true;
            try
            {
                TauOptions options = TauOptions.Parse(marked == null ? arguments : marked.Arguments(arguments));
                if (options.IgnoredSentence != null)
                {
                    Debug.LogWarning(options.IgnoredSentence);
                }
                Begin(options, marked, HasFlag(arguments, SceneFlag));
            }
            catch (TauException mistake)
            {
                Fail(mistake);
            }
        }

        private static void Begin(TauOptions options, TauScene marked, bool hasFlags)
        {
            SceneKind kind = KindOf(options, marked);
            TauScene scene = Open(kind, marked, options.Pairs ?? TauSceneBuilder.UsualArenas);
            TauConsole console = scene.GetComponent<TauConsole>();
            switch (kind)
            {
                case SceneKind.Tau:
                    Train(scene, console, options, hasFlags);
                    break;
                case SceneKind.Inference:
                    scene.GetComponent<TauAnswerer>().Configure(options);
                    console.Open(InferenceHint);
                    break;
            }
        }

        /// <summary>The scene to play: from the command line, else from the open scene, else `tau`.</summary>
        private static SceneKind KindOf(TauOptions options, TauScene marked)
        {
            switch (options.Scene)
            {
                case "tau":
                    return SceneKind.Tau;
                case "balance":
                    return SceneKind.Balance;
                case "inference":
                    return SceneKind.Inference;
                default:
                    return marked == null ? SceneKind.Tau : marked.Kind;
            }
        }

        /// <summary>If a scene of another kind is open, replaces it with a new one.</summary>
        private static TauScene Open(SceneKind kind, TauScene marked, int arenas)
        {
            if (marked == null || marked.Kind == kind)
            {
                return TauSceneBuilder.Build(kind, arenas);
            }
            Scene opened = marked.gameObject.scene;
            SceneManager.SetActiveScene(SceneManager.CreateScene(TauSceneBuilder.NameOf(kind) + " (played)"));
            TauScene scene = TauSceneBuilder.Build(kind, arenas);
            SceneManager.UnloadSceneAsync(opened);
            return scene;
        }

        private static void Train(TauScene scene, TauConsole console, TauOptions options, bool hasFlags)
        {
            var manager = scene.GetComponent<ParallelTrainerManager>();
            if (!hasFlags && !scene.StartAlone && !Academy.Instance.IsCommunicatorOn)
            {
                Wait(console);
                return;
            }
            manager.Finished += report => Leave(manager, report);
            manager.StartTraining(options);
        }

        /// <summary>Waits for typed commands; if there is no console, that is an error.</summary>
        private static void Wait(TauConsole console)
        {
            if (Application.isBatchMode)
            {
                throw new TauException(
                    "No trainer is connected, and no flag starts training without one; give the trainer's port with "
                    + "--mlagents-port N, or a number of pairs with --tau-pairs N.");
            }
            console.Open(TrainingHint);
        }

        /// <summary>
        /// Ends a headless player after its training; exit code 0: success, 1: a pair failed, 2: an error.
        /// </summary>
        private static void Leave(ParallelTrainerManager manager, CentralReport report)
        {
            if (Application.isBatchMode)
            {
                bool failed = report.Pairs.Any(pair => pair.State == PairState.Failed);
                Quit(manager.Mistake != null ? 2 : failed ? 1 : 0);
            }
        }

        /// <summary>Ends a player with an exit code; does nothing in the editor.</summary>
        private static void Quit(int exitCode)
        {
            if (!Application.isEditor)
            {
                Application.Quit(exitCode);
            }
        }

        /// <summary>Ends a player with the error in the log; in the editor the console shows it.</summary>
        private static void Fail(TauException mistake)
        {
            Debug.LogError(mistake.Message);
            Quit(2);
            TauConsole console = SceneSearch.Find<TauConsole>();
            if (console == null)
            {
                console = TauSceneBuilder.Build(SceneKind.Tau).GetComponent<TauConsole>();
            }
            console.OpenWithMistake(mistake.Message);
        }

        /// <summary>Whether there is a flag of this project other than <paramref name="except"/>.</summary>
        private static bool HasFlag(IReadOnlyList<string> arguments, string except)
        {
            return arguments.Any(argument => argument.StartsWith(Flags, StringComparison.Ordinal)
                && (except == null || !argument.StartsWith(except, StringComparison.Ordinal)));
        }
    }
}
