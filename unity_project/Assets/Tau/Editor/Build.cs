using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using Tau.Core;
using UnityEditor;
using UnityEditor.Build.Reporting;
using UnityEngine;

namespace Tau.Editor
{
    /// <summary>
    /// Builds a player. For a command line:
    /// <c>Unity -batchmode -nographics -quit -projectPath DIR -executeMethod Tau.Editor.Build.Linux
    /// [-tauOutput PATH] [-tauServer]</c>. Each of its lines in the log starts with <c>tau-build:</c>. The exit code is
    /// 0 if the player was built, 1 if the build failed, 2 for an error in the command line or a missing module of the
    /// editor. If you call the methods from an open editor, they do not close it.
    /// </summary>
    public static class Build
    {
        /// <summary>Prefix of every line in the log.</summary>
        public const string Prefix = "tau-build: ";

        private const int Failed = 1;
        private const int Mistaken = 2;

        /// <summary>Builds <c>Tau.x86_64</c>.</summary>
        public static void Linux()
        {
            Run(BuildTarget.StandaloneLinux64, "Linux", ".x86_64");
        }

        /// <summary>Builds <c>Tau.exe</c>.</summary>
        public static void Windows()
        {
            Run(BuildTarget.StandaloneWindows64, "Windows", ".exe");
        }

        /// <summary>Builds <c>Tau.app</c>.</summary>
        public static void MacOS()
        {
            Run(BuildTarget.StandaloneOSX, "macOS", ".app");
        }

        private static void Run(BuildTarget target, string platform, string ending)
        {
            int code;
            try
            {
                BuildArguments arguments = BuildArguments.Parse(Environment.GetCommandLineArgs());
                code = Player(target, platform, ending, arguments);
            }
            catch (TauException mistake)
            {
                Complain(mistake.Message);
                code = Mistaken;
            }
            catch (Exception error)
            {
                Complain(error.GetType().Name + ": " + OneLine(error.Message));
                Debug.LogException(error);
                code = Failed;
            }
            if (Application.isBatchMode)
            {
                EditorApplication.Exit(code);
            }
        }

        private static int Player(BuildTarget target, string platform, string ending, BuildArguments arguments)
        {
            if (!BuildPipeline.IsBuildTargetSupported(BuildTargetGroup.Standalone, target))
            {
                throw new TauException(
                    platform + " Build Support (Mono) is not installed in this editor, Unity "
                    + Application.unityVersion + ": add the module in Unity Hub (Installs, Add modules).");
            }
            string folder = Path.Combine("Builds", platform.ToLowerInvariant());
            string player = arguments.Player(folder, Application.productName, ending);
            string[] scenes = SceneFiles.Ensure(out IReadOnlyList<string> made);
            foreach (string scene in scenes)
            {
                bool fresh = ((ICollection<string>)made).Contains(scene);
                Say("scene " + scene + (fresh ? ": made" : ": used as it is (delete it to have it made again)"));
            }
            bool server = arguments.Server && ServerInstalled(target, platform);
            Say("building " + platform + (server ? " dedicated server" : " player") + ": " + player);
            Directory.CreateDirectory(Path.GetDirectoryName(player));
            var options = new BuildPlayerOptions
            {
                scenes = scenes,
                locationPathName = player,
                target = target,
                targetGroup = BuildTargetGroup.Standalone,
                subtarget = (int)(server ? StandaloneBuildSubtarget.Server : StandaloneBuildSubtarget.Player),
                options = BuildOptions.None,
            };
            return Judge(BuildPipeline.BuildPlayer(options), player);
        }

        private static int Judge(BuildReport report, string player)
        {
            BuildSummary summary = report.summary;
            if (summary.result != BuildResult.Succeeded)
            {
                Complain("the build " + summary.result.ToString().ToLowerInvariant() + ": " + FirstError(report));
                return Failed;
            }
            Say(string.Format(
                CultureInfo.InvariantCulture,
                "done: {0} ({1:0.0} MB, {2:0} s)",
                player,
                summary.totalSize / 1e6,
                summary.totalTime.TotalSeconds));
            return 0;
        }

        private static string FirstError(BuildReport report)
        {
            foreach (BuildStep step in report.steps)
            {
                foreach (BuildStepMessage message in step.messages)
                {
                    if (message.type == LogType.Error || message.type == LogType.Exception)
                    {
                        return OneLine(message.content);
                    }
                }
            }
            return "Unity reported no error; check the log.";
        }

        /// <summary>Whether the editor has the module for server players.</summary>
        private static bool ServerInstalled(BuildTarget target, string platform)
        {
            string engine = BuildPipeline.GetPlaybackEngineDirectory(target, BuildOptions.None);
            string variations = Path.Combine(engine, "Variations");
            if (Directory.Exists(variations) && Directory.GetDirectories(variations, "*server*").Length > 0)
            {
                return true;
            }
            Say("warning: " + platform + " Dedicated Server Build Support is not installed in this editor: "
                + "building an ordinary player, which also runs without a window with -batchmode -nographics.");
            return false;
        }

        private static string OneLine(string text)
        {
            return text.Replace("\r", string.Empty).Replace("\n", " ").Trim();
        }

        private static void Say(string text)
        {
            Debug.Log(Prefix + text);
        }

        private static void Complain(string text)
        {
            Debug.LogError(Prefix + "error: " + text);
        }
    }
}
